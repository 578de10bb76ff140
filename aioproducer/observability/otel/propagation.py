"""The context of a record in its headers, by OpenTelemetry's global propagator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter

from aioproducer.model import Header, Headers

__all__ = ["OwnContext", "extract", "inject", "own_context"]

_BAGGAGE: Final = "baggage"


class OwnContext(NamedTuple):
    """The context that the caller has put into a record's headers."""

    keys: frozenset[str]
    """The propagator's keys among them."""
    span: trace.SpanContext | None
    """The span that they name."""

    @property
    def replaces(self) -> bool:
        """True if the record needs no other context than its own."""
        return bool(self.keys - {_BAGGAGE})


class _Append(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Find(Getter[list[tuple[str, Any]]]):
    def get(self, carrier: list[tuple[str, Any]], key: str) -> list[str] | None:
        found = [value for name, value in carrier if name == key and value is not None]
        return [_text(value) for value in found] or None

    def keys(self, carrier: list[tuple[str, Any]]) -> list[str]:
        return [name for name, _ in carrier]


def _text(value: Any) -> str:
    """A value as the producer takes it: bytes-like, or text."""
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


_APPEND: Final = _Append()
_FIND: Final = _Find()
_NONE: Final = OwnContext(frozenset(), None)


def inject(context: Context, without: frozenset[str]) -> tuple[Header, ...]:
    """The headers that carry ``context``, but for keys in ``without``."""
    carrier: list[Header] = []
    propagate.inject(carrier, context=context, setter=_APPEND)
    if without:
        carrier = [header for header in carrier if header[0] not in without]
    return tuple(carrier)


def extract(headers: Sequence[Header], into: Context) -> Context:
    """``into``, with the context that ``headers`` carry."""
    return propagate.extract([*headers], context=into, getter=_FIND)


def _pairs(headers: Headers) -> Iterable[tuple[str, Any]]:
    return headers.items() if isinstance(headers, Mapping) else headers


def own_context(headers: Headers | None) -> OwnContext:
    """The context in the caller's headers. An iterator, or no pairs, are left to the producer."""
    if not headers or not isinstance(headers, Mapping | Sequence):
        return _NONE
    fields = propagate.get_global_textmap().fields
    try:
        pairs = [(name, value) for name, value in _pairs(headers)]
        keys = frozenset(name for name, _ in pairs if name in fields)
    except (TypeError, ValueError):
        return _NONE
    if not keys:
        return _NONE
    span = trace.get_current_span(extract(pairs, Context())).get_span_context()
    return OwnContext(keys, span if span.is_valid else None)
