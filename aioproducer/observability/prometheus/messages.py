"""Series as bytes, from one process of a server to another. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, get_args

from aioproducer.observability.series import Family, Kind, Sample

__all__ = ["MalformedMessageError", "from_bytes", "to_bytes"]

_KINDS: Final = frozenset(get_args(Kind))


class MalformedMessageError(ValueError):
    """A message is not one of series."""


def to_bytes(families: Iterable[Family]) -> bytes:
    """``families`` as JSON."""
    return json.dumps(
        [[each.name, each.kind, each.meaning, each.samples] for each in families],
        separators=(",", ":"),
    ).encode()


def from_bytes(message: bytes) -> list[Family]:
    """The families of :func:`to_bytes`. Raises MalformedMessageError for anything else."""
    try:
        return [_family(each) for each in json.loads(message)]
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedMessageError(str(error)) from None


def _family(found: Any) -> Family:
    name, kind, meaning, samples = found
    if kind not in _KINDS:
        raise MalformedMessageError(f"{kind!r} is no kind of metric")
    return Family(_text(name), kind, _text(meaning), [_sample(each) for each in samples])


def _sample(found: Any) -> Sample:
    name, labels, value = found
    if not isinstance(labels, dict) or not isinstance(value, int | float):
        raise MalformedMessageError(f"{name!r} is no sample")
    return Sample(_text(name), {each: _text(labels[each]) for each in labels}, float(value))


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise MalformedMessageError(f"{found!r} is no text")
    return found
