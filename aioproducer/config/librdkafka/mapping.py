"""A configuration of librdkafka into options of ours, or one error that names all obstacles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aioproducer.config.librdkafka.row import Row
from aioproducer.config.librdkafka.settling import settle
from aioproducer.config.librdkafka.table import BY_NAME, OF_CONSUMERS
from aioproducer.config.librdkafka.values import text_of
from aioproducer.config.options import OPTIONS
from aioproducer.config.placeholders import Reference
from aioproducer.config.secret import hidden
from aioproducer.errors import ConfigError

__all__ = [
    "hidden_librdkafka",
    "known_to_librdkafka",
    "may_be_secret",
    "options_of_librdkafka",
]

_TOPIC_CONFIG: Final = "default.topic.config"


@dataclass(slots=True)
class _Found:
    """The values found so far, and the obstacles."""

    values: dict[str, Any] = field(default_factory=dict)
    set_by: dict[str, str] = field(default_factory=dict)
    """Their names by ours."""
    obstacles: list[tuple[str, str]] = field(default_factory=list)


def hidden_librdkafka(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with every value wrapped that may be a secret; it holds ``default.topic.config``'s
    options beside the others, and none that is None, librdkafka's word for its default."""
    topic = config.get(_TOPIC_CONFIG)
    flat = {**config, **topic} if isinstance(topic, Mapping) else dict(config)
    if isinstance(topic, Mapping):
        del flat[_TOPIC_CONFIG]
    return {
        name: hidden(text_of(value)) if may_be_secret(name, value) else text_of(value)
        for name, value in flat.items()
        if value is not None
    }


def options_of_librdkafka(
    config: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Our options for the values of :func:`hidden_librdkafka`; those with placeholders are
    references.

    An option of theirs is not looked at if one of ours that stands for it is in ``overrides``.

    Raises:
        ConfigError: options have no counterpart, are unknown or have a wrong value; the message
            names all of them, and no secret.
    """
    found = _Found()
    for name, value in config.items():
        row = BY_NAME.get(name)
        if row is None:
            found.obstacles.append((name, _unknown(name)))
        elif not _is_replaced(row, overrides):
            _take(found, row, name, value)
    found.obstacles += settle(found.values, overrides)
    if found.obstacles:
        raise ConfigError(_message(found.obstacles))
    return found.values


def known_to_librdkafka(name: str) -> bool:
    """True if it is the name of an option of librdkafka or of confluent-kafka."""
    return name in BY_NAME or name in OF_CONSUMERS


def may_be_secret(name: object, value: object) -> bool:
    """True if no traceback is to show the value of an option with this name."""
    row = BY_NAME.get(name) if isinstance(name, str) else None
    if row is None or callable(value):
        return row is None
    if not row.options:
        return not row.harmless
    return OPTIONS[row.options[0]].kind.hides(value)


def _is_replaced(row: Row, overridden: Collection[str]) -> bool:
    replacing = {row.instead, *row.options}
    if any(name.startswith("ssl_") for name in row.options):
        replacing.add("ssl_context")
    return any(name in replacing for name in overridden)


def _take(found: _Found, row: Row, name: str, value: Any) -> None:
    if not row.options:
        if str(value).strip().lower() not in map(str.lower, row.harmless):
            found.obstacles.append((name, f"no counterpart; {row.note}"))
        return
    try:
        taken = dict(_accepted(row, name, value))
    except ConfigError as error:
        found.obstacles.append((name, str(error).removeprefix(f"{name}: ")))
        return
    for option, accepted in taken.items():
        if option not in found.values:
            found.values[option], found.set_by[option] = accepted, name
        elif found.values[option] != accepted:
            other = found.set_by[option]
            found.obstacles.append(
                (name, f"{option} here, and so is {other} with another value: keep one")
            )


def _accepted(row: Row, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    given = {row.options[0]: value} if row.convert is None else row.convert(value)
    for option, each in given.items():
        if option in OPTIONS and not isinstance(each, Reference):
            yield option, OPTIONS[option]._replace(java_name=name).accept_property(each)
        else:
            yield option, each


def _unknown(name: object) -> str:
    if name in OF_CONSUMERS:
        return "an option of consumers; omit it"
    if not isinstance(name, str):
        return "not the name of an option: it is not a str"
    if name.replace("_", ".") in BY_NAME:
        return f"unknown; did you mean {name.replace('_', '.')!r}?"
    if name in OPTIONS:
        return f"an option of this producer; pass it as a keyword: from_librdkafka(…, {name}=…)"
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower(), BY_NAME, n=1)
    return f"unknown; did you mean {nearest[0]!r}?" if nearest else "unknown"


def _message(obstacles: list[tuple[str, str]]) -> str:
    if len(obstacles) == 1:
        [(name, problem)] = obstacles
        return f"librdkafka's option {name!r}: {problem}"
    lines = (f"\n{name!r}: {problem}" for name, problem in obstacles)
    return f"{len(obstacles)} of librdkafka's options can't be taken:{''.join(lines)}"
