"""One option of librdkafka: its names, and ours, or the reason for which there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "COMPRESSION_LEVEL",
    "NO_EFFECT",
    "OAUTH_CONFIG",
    "Converted",
    "Row",
    "mapped",
    "refused",
]

COMPRESSION_LEVEL: Final = "compression.level"
OAUTH_CONFIG: Final = "sasl.oauthbearer.config"
"""Options whose meaning depends on others: their own names stand in place of ours."""

Converted: TypeAlias = Mapping[str, Any]
"""Values by our options' names. A ``str`` is in the form of a properties file."""

NO_EFFECT: Final = "omit it: it has no effect here"


class Row(NamedTuple):
    """An option of librdkafka, or only of confluent-kafka."""

    names: tuple[str, ...]
    """Its name, then the aliases."""
    options: tuple[str, ...]
    """Our options that it sets; empty: it has no counterpart."""
    convert: Callable[[Any], Converted] | None
    """None: the first of ``options`` takes the value as it is."""
    note: str
    """The difference; for an option without counterpart, the thing to do instead."""
    harmless: tuple[str, ...]
    """The values of an option without counterpart that ask for what happens here anyway."""
    instead: str | None
    """Our option that replaces one without counterpart, if it is given beside the configuration."""


def mapped(
    names: str,
    options: str,
    convert: Callable[[Any], Converted] | None = None,
    note: str = "",
) -> Row:
    """An option with a counterpart; names and options are separated by spaces."""
    return Row(tuple(names.split()), tuple(options.split()), convert, note, (), None)


def refused(
    names: str, advice: str, *, harmless: tuple[str, ...] = (), instead: str | None = None
) -> Row:
    """An option without counterpart."""
    return Row(tuple(names.split()), (), None, advice, harmless, instead)
