"""A producer's configuration: checked, normalised, immutable."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack

from aioproducer.config.cross_checks import settle
from aioproducer.config.keywords import ProducerOptions
from aioproducer.config.names import (
    BY_JAVA_NAME,
    WITHOUT_EFFECT,
    unknown_keyword,
    unknown_property,
)
from aioproducer.config.options import OPTIONS, OptionTable
from aioproducer.config.properties import decode_properties, parse_properties
from aioproducer.errors import ConfigError

__all__ = ["ProducerConfig", "PropertiesSource", "read_properties"]

PropertiesSource: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
"""Java properties by their dotted names, or the path of a ``.properties`` file."""

_PLACEHOLDER: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")
_ACKS_ON_THE_WIRE: Final = {"all": -1, "1": 1, "0": 0}

_logger: Final = logging.getLogger("aioproducer.config")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProducerConfig(OptionTable):
    """Every option's effective value under its Python name; times are integers in milliseconds.

    Equal when all effective values are; hashable and picklable when the user's own serializers,
    partitioner and interceptors are. ``repr`` shows what differs from the defaults, no secret.

    Raises:
        ConfigError: an option is unknown, of the wrong type, out of range, not available in this
            version, or contradicts another one.
    """

    given: frozenset[str] = field(init=False, compare=False)
    """The names of the options that were set explicitly, be it to their default."""

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        given: Mapping[str, object] = options
        _refuse_unknown(given)
        for name, option in OPTIONS.items():
            if name not in given and option.required:
                raise ConfigError(f"{name} is required: {option.kind.wording}")
            value = option.accept(given[name]) if name in given else option.default
            object.__setattr__(self, name, value)
        object.__setattr__(self, "given", frozenset(given))
        for name, value in tuple(settle(self)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_properties(
        cls, source: PropertiesSource, /, **overrides: Unpack[ProducerOptions]
    ) -> ProducerConfig:
        """Read the properties of a Java producer.

        Args:
            source: dotted names with values, or the path of a ``.properties`` file in UTF-8 or
                Latin-1. A ``str`` value is converted to the option's type.
            overrides: options that count instead of the source's, which are then not looked at.

        Java options without effect here are named in one warning.

        Raises:
            ConfigError: the file cannot be read, or as for :class:`ProducerConfig`; a message
                about a property has its dotted name.
        """
        _refuse_unknown(overrides)
        properties = source if isinstance(source, Mapping) else read_properties(Path(source))
        options: dict[str, Any] = {}
        without_effect: list[str] = []
        for java_name, value in properties.items():
            option = BY_JAVA_NAME.get(java_name)
            if option is not None:
                if option.name not in overrides:
                    _refuse_placeholder(java_name, value, properties)
                    options[option.name] = option.accept_property(value)
            elif java_name in WITHOUT_EFFECT:
                without_effect.append(f"{java_name} ({WITHOUT_EFFECT[java_name]})")
            else:
                raise unknown_property(java_name)
        if without_effect:
            _logger.warning("properties without effect: %s", "; ".join(without_effect))
        return cls(**{**options, **overrides})

    def replace(self, **changes: Unpack[ProducerOptions]) -> ProducerConfig:
        """A configuration with ``changes`` over the options that were set explicitly here.

        What had given way to another option (``enable_idempotence`` to ``acks``) is decided anew.

        Raises:
            ConfigError: as for :class:`ProducerConfig`.
        """
        return _make({**self._given_options(), **changes})

    __replace__ = replace

    @property
    def acks_value(self) -> int:
        """``acks`` as a produce request carries it: -1 (all), 1 or 0."""
        return _ACKS_ON_THE_WIRE[self.acks]

    def _given_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTIONS if name in self.given}

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name, option in OPTIONS.items()
            if getattr(self, name) != option.default
        )
        return f"ProducerConfig({shown})"

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return (_make, (self._given_options(),))


def _make(options: Mapping[str, Any]) -> ProducerConfig:
    """By names, so that a pickle is understood, or refused by name, by another version."""
    return ProducerConfig(**options)


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in OPTIONS:
            raise unknown_keyword(name)


def _refuse_placeholder(name: str, value: object, properties: Mapping[str, Any]) -> None:
    resolved_by_java = isinstance(value, str) and "config.providers" in properties
    if resolved_by_java and _PLACEHOLDER.search(str(value)):
        raise ConfigError(
            f"{name} holds a placeholder for config.providers, which are not available;"
            " pass the value as keyword to from_properties()"
        )


def read_properties(path: Path) -> dict[str, str]:
    """What a ``.properties`` file says. Raises :class:`ConfigError` if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_properties(decode_properties(data), origin=str(path))
