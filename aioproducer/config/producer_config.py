"""A producer's configuration: checked, normalised, immutable."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Never, TypeAlias, Unpack

from aioproducer.config.cross_checks import CHECKED_SECRETS, settle
from aioproducer.config.names import (
    BY_JAVA_NAME,
    CHECKED_WITHOUT_EFFECT,
    WITHOUT_EFFECT,
    ProducerOptions,
    unknown_keyword,
    unknown_property,
)
from aioproducer.config.option import Group, Option
from aioproducer.config.options import OPTIONS, GivenOptions
from aioproducer.config.placeholders import (
    BUILT_IN,
    CONFIG_PROVIDERS,
    THIS_PROCESS,
    Providers,
    Reference,
)
from aioproducer.config.plain_secrets import (
    hidden_mapping,
    hidden_properties,
    hide_secrets,
    holds_secret,
    no_positional,
)
from aioproducer.config.properties import decode_properties, parse_properties
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = ["ProducerConfig", "PropertiesSource", "read_properties"]

PropertiesSource: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
"""Java properties by their dotted names, or the path of a ``.properties`` file."""

_ACKS_ON_THE_WIRE: Final = {"all": -1, "1": 1, "0": 0}

_READ_AGAIN: Final = (Group.TLS, Group.SASL, Group.TOKENS)

_logger: Final = logging.getLogger("aioproducer.config")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProducerConfig(GivenOptions):
    """Every option's effective value under its Python name; times are integers in milliseconds.

    Equal when all effective values are; hashable and picklable when the user's own serializers,
    partitioner and interceptors are. ``repr`` shows what differs from the defaults, no secret.

    A ``str`` may hold ``${env:NAME}``, ``${file:/path/of.properties:key}`` or ``${dir:/path:file}``
    (the whole content of a file, without its last line feed). It is read here, and ``repr`` and
    pickles have the placeholder: a pickle is read anew where it is loaded.

    Raises:
        ConfigError: an option is unknown, of the wrong type, out of range, not available in this
            version, or contradicts another one.
    """

    references: Mapping[str, Reference] = field(init=False, compare=False)
    """The options whose values came by placeholders, with the texts as they were written."""

    def __init__(self, *no_others: Never, **options: Unpack[ProducerOptions]) -> None:
        hide_secrets(options)
        if no_others:
            given = hidden_mapping(no_others[0])
            del no_others  # a traceback shows the values of this frame
            raise no_positional(given)
        _refuse_unknown(options)
        self._take(_with_references(options))

    def _take(self, given: Mapping[str, object]) -> None:
        """Take values, or references to them, by the options' names."""
        values: dict[str, Any] = {}
        references: dict[str, Reference] = {}
        for name, option in OPTIONS.items():
            if name not in given and option.required:
                raise ConfigError(f"{name} is required: {option.kind.wording}")
            value = given.get(name)
            if isinstance(value, _Referred):
                references[name] = value.reference
                value = value.value
            elif isinstance(value, Reference):
                references[name] = value
                value = _resolved(value, option, name)
            elif name in given:
                value = option.accept(value)
            else:
                value = option.default
            values[name] = value
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "given", frozenset(given))
        object.__setattr__(self, "references", references)
        for name, value in tuple(settle(self)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_properties(
        cls, source: PropertiesSource, /, **overrides: Unpack[ProducerOptions]
    ) -> ProducerConfig:
        """Read the properties of a Java producer.

        Args:
            source: dotted names with values, or the path of a ``.properties`` file in UTF-8 or
                Latin-1. A ``str`` value is converted to the option's type; its placeholders are
                read if ``config.providers`` names their providers.
            overrides: options that count instead of the source's, which are then not looked at.

        Java options without effect here are named in one warning.

        Raises:
            ConfigError: the file cannot be read, or as for :class:`ProducerConfig`; a message
                about a property has its dotted name.
        """
        hide_secrets(overrides)
        _refuse_unknown(overrides)
        properties = hidden_properties(
            source if isinstance(source, Mapping) else read_properties(source)
        )
        del source  # a traceback shows the values of this frame
        providers = Providers.of(properties)
        options: dict[str, Any] = {}
        without_effect: list[str] = []
        for java_name, value in properties.items():
            option = BY_JAVA_NAME.get(java_name)
            if option is not None:
                if option.name not in overrides:
                    options[option.name] = _of_property(option, value, providers)
            elif java_name in WITHOUT_EFFECT:
                if java_name in CHECKED_WITHOUT_EFFECT:
                    _of_property(CHECKED_WITHOUT_EFFECT[java_name], value, providers)
                without_effect.append(f"{java_name} ({WITHOUT_EFFECT[java_name]})")
            elif not f"{java_name}.".startswith(f"{CONFIG_PROVIDERS}."):
                raise unknown_property(java_name)
        if without_effect:
            _logger.warning("properties without effect: %s", "; ".join(without_effect))
        return _make({**options, **_with_references(overrides)})

    @classmethod
    def from_librdkafka(
        cls, config: Mapping[str, Any], /, **overrides: Unpack[ProducerOptions]
    ) -> ProducerConfig:
        """Take the options of a producer of librdkafka, as confluent-kafka has them.

        An option that is not set has this producer's default, but for the partitioner: librdkafka's
        own, ``consistent_random``, keeps each key in its partition. A ``${…}`` is no placeholder.

        Args:
            config: librdkafka's names with values, as ``confluent_kafka.Producer`` takes them.
            overrides: options that count instead; those of ``config`` that they replace are not
                looked at, with ``ssl_context`` all of TLS.

        Raises:
            ConfigError: options are unknown, have no counterpart or a wrong value (the message
                names all of them, and what to do instead), or as for :class:`ProducerConfig`.
        """
        from aioproducer.config.librdkafka import hidden_librdkafka, options_of_librdkafka

        hide_secrets(overrides)
        _refuse_unknown(overrides)
        given = hidden_librdkafka(config)
        del config  # a traceback shows the values of this frame
        options = options_of_librdkafka(given, overrides)
        return _make({**options, **_with_references(overrides)})

    def replace(self, **changes: Unpack[ProducerOptions]) -> ProducerConfig:
        """A configuration with ``changes`` over the options that were set explicitly here.

        An option that gave way to another (``enable_idempotence`` to ``acks``) is decided anew.

        Raises:
            ConfigError: as for :class:`ProducerConfig`.
        """
        hide_secrets(changes)
        _refuse_unknown(changes)
        return _make({**self._given_options(), **_with_references(changes)})

    __replace__ = replace

    def reread(self) -> ProducerConfig:
        """This configuration with the placeholders of TLS and logins read again, for the secrets
        behind them may have changed; the very same object if they have not.

        This blocks where a placeholder refers to a file.

        Raises:
            ConfigError: a placeholder can't be read now, or has a value that its option refuses.
        """
        changed = {
            name: value
            for name, reference in self.references.items()
            if OPTIONS[name].group in _READ_AGAIN
            and (value := _resolved(reference, OPTIONS[name], name)) != getattr(self, name)
        }
        if not changed:
            return self
        made = object.__new__(ProducerConfig)
        for each in fields(self):
            object.__setattr__(made, each.name, changed.get(each.name, getattr(self, each.name)))
        return made

    @property
    def acks_value(self) -> int:
        """``acks`` as a produce request carries it: -1 (all), 1 or 0."""
        return _ACKS_ON_THE_WIRE[self.acks]

    def plain_secrets(self) -> tuple[str, ...]:
        """The names of the options that hold a secret as it is, which a pickle would carry, too;
        a secret that came by a placeholder is not among them."""
        return tuple(
            name for name, option in OPTIONS.items() if option.kind.secret and self._is_plain(name)
        )

    def _is_plain(self, name: str) -> bool:
        value: Secret | None = getattr(self, name)
        if value is None or name not in self.given:
            return False
        reference = self.references.get(name)
        return holds_secret(name, value if reference is None else reference.text, reference)

    def _given_options(self) -> dict[str, Any]:
        return {
            name: self.references.get(name, getattr(self, name))
            for name in OPTIONS
            if name in self.given
        }

    def __repr__(self) -> str:
        if not hasattr(self, "references"):
            return "ProducerConfig(…)"  # a debugger looks at one that is being made
        shown = ", ".join(
            f"{name}={self._shown(option)}"
            for name, option in OPTIONS.items()
            if name in self.references or getattr(self, name) != option.default
        )
        return f"ProducerConfig({shown})"

    def _shown(self, option: Option) -> str:
        reference = self.references.get(option.name)
        if reference is None:
            return option.kind.shown(getattr(self, option.name))
        return option.kind.shown(reference.shown(secret=option.kind.secret))

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return (_make, (self._given_options(),))


class _Referred(NamedTuple):
    """A reference that was read already."""

    reference: Reference
    value: Any


def _make(options: Mapping[str, Any]) -> ProducerConfig:
    """Make it by names, so that another version understands a pickle, or refuses a name.

    Placeholders in plain values stay as they are: those that are to be read came as references.
    """
    _refuse_unknown(options)
    made = object.__new__(ProducerConfig)
    made._take(options)
    return made


def _with_references(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords, with those that hold placeholders turned into references."""
    return {name: Reference.in_value(value, BUILT_IN) or value for name, value in options.items()}


def _resolved(reference: Reference, option: Option, name: str) -> Any:
    text = reference.resolve(name, THIS_PROCESS)
    return option.accept_resolved(name, text, reference.shown(secret=option.kind.secret))


def _of_property(option: Option, value: object, providers: Providers | None) -> Any:
    reference = Reference.in_value(value, providers)
    if reference is not None:
        return _Referred(reference, _resolved(reference, option, option.java_name))
    if (
        providers is None
        and option.name not in CHECKED_SECRETS
        and Reference.in_value(value, BUILT_IN) is not None
    ):
        _logger.warning(
            "%s is used literally: its placeholder needs a provider in config.providers",
            option.java_name,
        )
    return option.accept_property(value)


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in OPTIONS:
            raise unknown_keyword(name)


def read_properties(source: str | os.PathLike[str]) -> dict[str, str]:
    """The content of a ``.properties`` file. Raises :class:`ConfigError` if it cannot be read."""
    path = os.fspath(source)
    try:
        data = THIS_PROCESS.content(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_properties(decode_properties(data), origin=path)
