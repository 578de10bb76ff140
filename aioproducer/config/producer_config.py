"""A producer's configuration: checked, normalised, immutable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, TypeAlias, Unpack

from aioproducer.config.cross_checks import CHECKED_SECRETS, settle
from aioproducer.config.names import (
    BY_JAVA_NAME,
    CHECKED_WITHOUT_EFFECT,
    WITHOUT_EFFECT,
    ProducerOptions,
    unknown_keyword,
    unknown_property,
)
from aioproducer.config.options import OPTIONS, Group, Option, OptionTable
from aioproducer.config.plain_secrets import (
    hidden_mapping,
    hidden_properties,
    hide_secrets,
    holds_secret,
    no_config,
    no_positional,
)
from aioproducer.config.properties import (
    BUILT_IN,
    CONFIG_PROVIDERS,
    THIS_PROCESS,
    Providers,
    Reference,
    decode_properties,
    parse_properties,
    settled,
)
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.secret import Secret

__all__ = [
    "ProducerConfig",
    "PropertiesSource",
    "ShownOptions",
    "configuration",
    "literal_configuration",
    "property_value",
    "read_properties",
]

PropertiesSource: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
"""Java properties with their dotted names, or the path of a ``.properties`` file."""

_ACKS_ON_THE_WIRE: Final = {"all": -1, "1": 1, "0": 0}

_READ_AGAIN: Final = (Group.TLS, Group.SASL, Group.TOKENS)

_logger: Final = plain_logger("aioproducer.config")

_values_of: Final[Callable[[OptionTable], tuple[Any, ...]]] = attrgetter(*OPTIONS)


class ProducerConfig(OptionTable):
    """The effective value of every option, under its Python name. Times are integers in
    milliseconds.

    Two configurations are equal if all effective values are. A configuration is hashable and
    picklable if your serializers, partitioner and interceptors are. ``repr`` shows the values that
    differ from the defaults, and never shows secrets.

    A ``str`` can contain ``${env:NAME}``, ``${file:/path/of.properties:key}`` or
    ``${dir:/path:file}`` (the whole content of a file, without the last line feed). These
    placeholders are resolved here. ``repr`` and pickles keep the placeholder, so it is resolved
    again where a pickle is loaded. A resolved value is used as it is, in copies too. The
    environment variable ``AIOPRODUCER_AUTOMATIC_CONFIG_PROVIDERS`` limits the placeholders of a
    process, as Kafka's ``org.apache.kafka.automatic.config.providers`` does.

    Raises:
        ConfigError: an option is unknown, of the wrong type, out of range, not available in this
            version, or contradicts another one.
    """

    def __init__(self, *no_others: Never, **options: Unpack[ProducerOptions]) -> None:
        hide_secrets(options)
        if no_others:
            given = hidden_mapping(no_others[0])
            del no_others  # a traceback shows the values of this frame
            raise no_positional(given)
        _refuse_unknown(options)
        self._take(_with_references(options))

    if TYPE_CHECKING:

        def _sends(self, key: Any, value: Any) -> None:
            """Tells type checkers that a producer with this configuration may send anything."""

    else:

        def __setattr__(self, name: str, _: object) -> None:
            raise FrozenInstanceError(f"cannot assign to {name!r}")

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
            object.__setattr__(self, name, settled(value))
        object.__setattr__(self, "given", frozenset(given))
        object.__setattr__(self, "references", references)
        for name, value in tuple(settle(self)):
            object.__setattr__(self, name, settled(value))

    @classmethod
    def from_properties(
        cls, source: PropertiesSource, /, **overrides: Unpack[ProducerOptions]
    ) -> ProducerConfig:
        """Read the properties of a Java producer.

        Args:
            source: dotted names with values, or the path of a ``.properties`` file in UTF-8 or
                Latin-1. A ``str`` value is converted to the option's type; its placeholders are
                resolved if ``config.providers`` names their providers.
            overrides: options that replace those of the source, which are then not read.

        One warning names all Java options that have no effect here.

        Raises:
            ConfigError: the file cannot be read, or as for :class:`ProducerConfig`. Messages show
                the dotted name of a property.
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
        """Convert the options of a librdkafka producer, such as confluent-kafka's.

        Options that are not set get this producer's defaults. The exception is the partitioner: it
        is librdkafka's ``consistent_random``, so every key stays in its partition. Text such as
        ``${…}`` is not a placeholder here.

        Args:
            config: librdkafka's names with values, as for ``confluent_kafka.Producer``.
            overrides: options that replace those of ``config``, which are then not read;
                ``ssl_context`` replaces all TLS options.

        Raises:
            ConfigError: options are unknown, have no counterpart, or have a wrong value (the
                message lists all of them, and what to do instead), or as for
                :class:`ProducerConfig`.
        """
        from aioproducer.config.librdkafka import hidden_librdkafka, options_of_librdkafka

        hide_secrets(overrides)
        _refuse_unknown(overrides)
        given = hidden_librdkafka(config)
        del config  # a traceback shows the values of this frame
        options = options_of_librdkafka(given, overrides)
        return _make({**options, **_with_references(overrides)})

    def replace(self, **changes: Unpack[ProducerOptions]) -> ProducerConfig:
        """Return a copy with ``changes`` applied to the options that were set explicitly.

        An option that depends on another (``enable_idempotence`` on ``acks``) is determined again.
        The values of ``changes`` are used as they are: a placeholder in them is not resolved, as
        they may be made of this configuration's values.

        Raises:
            ConfigError: as for :class:`ProducerConfig`.
        """
        hide_secrets(changes)
        _refuse_unknown(changes)
        for name, value in changes.items():
            if Reference.in_value(value, BUILT_IN) is not None:
                _logger.warning(
                    "%s is used literally: ProducerConfig.replace() resolves no placeholders", name
                )
        return _make({**self._given_options(), **changes})

    __replace__ = replace

    def reread(self) -> ProducerConfig:
        """Return this configuration with the placeholders of TLS and logins resolved again, because
        the secrets may have changed. If they have not, return the same object.

        This blocks if a placeholder refers to a file.

        Raises:
            ConfigError: a placeholder can't be resolved now, or its value is invalid for the
                option.
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
            value = changed.get(each.name, getattr(self, each.name))
            object.__setattr__(made, each.name, settled(value))
        return made

    @property
    def acks_value(self) -> int:
        """``acks`` as in produce requests: -1 (all), 1 or 0."""
        return _ACKS_ON_THE_WIRE[self.acks]

    def plain_secrets(self) -> tuple[str, ...]:
        """The names of options with plain secrets, which a pickle would contain. Secrets from
        placeholders are not included."""
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerConfig):
            return NotImplemented
        return _values_of(self) == _values_of(other)

    def __hash__(self) -> int:
        return hash(_values_of(self))

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


if TYPE_CHECKING:
    import inspect


class ShownOptions:
    """The ``__signature__`` of a class whose constructor takes options as keywords.

    ``help()``, notebooks and :func:`inspect.signature` show each option with its default.
    """

    def __get__(self, _: object, owner: type[Any]) -> inspect.Signature:
        import inspect

        made = inspect.signature(owner.__init__)
        shown = [*made.parameters.values()]
        if shown and shown[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            del shown[0]  # self
        if shown and shown[-1].annotation == "Unpack[ProducerOptions]":
            shown[-1:] = [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=None if option.required else option.default,  # ``config`` may have it
                    annotation=ProducerOptions.__annotations__[name],
                )
                for name, option in OPTIONS.items()
            ]
        return made.replace(parameters=shown)


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


def configuration(
    config: ProducerConfig | None, options: Mapping[str, Any], client: str
) -> ProducerConfig:
    """The configuration by the arguments of a constructor, of the class with the name ``client``:
    ``config``, with ``options``, which a user wrote as keywords, in place of its own.

    The caller has hidden secrets in both: they are in its frame, too.

    Raises:
        ConfigError: an option is wrong, or ``config`` is something else.
    """
    if config is None:
        return ProducerConfig(**options)
    if not isinstance(config, ProducerConfig):
        raise no_config(config, client)
    return _make({**config._given_options(), **_with_references(options)}) if options else config


def literal_configuration(**options: Unpack[ProducerOptions]) -> ProducerConfig:
    """The configuration of another library's options, which knows no placeholders.

    Raises:
        ConfigError: as for :class:`ProducerConfig`.
    """
    hide_secrets(options)
    return _make(options)


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


def property_value(option: Option, value: object, providers: Providers | None) -> Any:
    """The normalised value of a Java property of another table, with placeholders resolved.

    Raises:
        ConfigError: the value is not acceptable, or a placeholder can't be resolved.
    """
    found = _of_property(option, value, providers)
    return found.value if isinstance(found, _Referred) else found


def _refuse_unknown(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in OPTIONS]
    if not unknown:
        return
    from aioproducer.config.librdkafka import BY_NAME as LIBRDKAFKA

    first, *others = (unknown_keyword(name, LIBRDKAFKA) for name in unknown)
    if others:
        first.args = (" / ".join(map(str, (first, *others))),)
    raise first


def read_properties(source: str | os.PathLike[str]) -> dict[str, str]:
    """The content of a ``.properties`` file. Raises :class:`ConfigError` if it cannot be read."""
    path = os.fspath(source)
    try:
        text = decode_properties(THIS_PROCESS.content(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_properties(text, origin=path)
