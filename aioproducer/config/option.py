"""One row of the option table: a dataclass field that knows its kind, group and Java name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from aioproducer.config.kinds import Kind, UnacceptableError
from aioproducer.config.secret import Secret, type_name_of
from aioproducer.errors import ConfigError

__all__ = ["Group", "Importance", "Option", "option", "options_of", "required_option"]

T = TypeVar("T")

_KEY: Final = "aioproducer.option"
_SHOWN_CHARACTERS: Final = 100


class Group(Enum):
    """The chapters of the documentation, in their order."""

    ESSENTIALS = "Essentials"
    BATCHING = "Batching and memory"
    DELIVERY = "Delivery"
    METADATA = "Metadata"
    NETWORK = "Network"
    HOOKS = "Serializers, partitioner, interceptors"
    SECURITY = "Security"
    TLS = "Security: TLS"
    SASL = "Security: logins (SASL)"
    TOKENS = "Security: OAuth tokens"
    TRANSACTIONS = "Transactions"
    METRICS = "Metrics"
    READING = "Reading: options only for a Reader"


class Importance(Enum):
    """The importance of an option in Kafka's documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class _Facts(NamedTuple):
    kind: Kind[Any]
    group: Group
    importance: Importance
    java_name: str | None
    kafka_default: str | None


class Option(NamedTuple):
    """A row of the table, read back from its field."""

    name: str
    java_name: str
    kind: Kind[Any]
    group: Group
    importance: Importance
    required: bool
    default: object
    kafka_default: str | None
    """Kafka's own default, where ours differs."""

    def accept(self, value: object) -> Any:
        """The normalised value.

        Raises:
            ConfigError: it is not acceptable; the message has the name, the value unless it is a
                secret, and the expected kind.
        """
        try:
            return self.kind.accept(value)
        except UnacceptableError as error:
            raise self._error(self.name, value, str(error)) from None

    def accept_property(self, value: object) -> Any:
        """The normalised value of a Java property; a ``str`` is converted to the option's type.

        Raises:
            ConfigError: as :meth:`accept`, with the Java name.
        """
        try:
            return self.kind.parse(value) if isinstance(value, str) else self.kind.accept(value)
        except UnacceptableError as error:
            raise self._error(self.java_name, value, str(error)) from None

    def accept_resolved(self, name: str, text: Secret, placeholder: str) -> Any:
        """The normalised value of the text behind ``placeholder``, which no message shows.

        Raises:
            ConfigError: as :meth:`accept`.
        """
        try:
            return self.kind.accept(text) if self.kind.secret else self.kind.parse(text.reveal())
        except UnacceptableError:
            pass  # its frames have the text, so the error below is not raised from it
        raise ConfigError(
            f"{name}={placeholder!r}: the value of the placeholder is not {self.kind.wording}"
        )

    def _error(self, name: str, value: object, expected: str) -> ConfigError:
        type_name = type_name_of(value)
        if self.kind.hides(value):
            return ConfigError(
                f"{name}: expected {expected}; the value of type {type_name} is hidden"
            )
        shown = repr(value)
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        return ConfigError(f"{name}={shown} (type {type_name}): expected {expected}")


def option(
    kind: Kind[T],
    default: T,
    group: Group,
    importance: Importance = Importance.LOW,
    *,
    java_name: str | None = None,
    kafka_default: str | None = None,
) -> T:
    """A dataclass field; its meaning is the docstring that follows it."""
    facts = _Facts(kind, group, importance, java_name, kafka_default)
    return field(default=default, metadata={_KEY: facts})


def required_option(kind: Kind[T], group: Group, importance: Importance) -> T:
    """A dataclass field without default."""
    facts = _Facts(kind, group, importance, None, None)
    return field(metadata={_KEY: facts})  # type: ignore[no-any-return]


def options_of(table: type) -> dict[str, Option]:
    """The rows of a dataclass made with :func:`option`, by their Python names, group by group."""
    rows: dict[str, Option] = {}
    groups = list(Group)
    for row in sorted(fields(table), key=lambda row: _group_of(row, groups)):
        facts: _Facts | None = row.metadata.get(_KEY)
        if facts is None:
            continue
        rows[row.name] = Option(
            name=row.name,
            java_name=facts.java_name or row.name.replace("_", "."),
            kind=facts.kind,
            group=facts.group,
            importance=facts.importance,
            required=row.default is MISSING,
            default=row.default,
            kafka_default=facts.kafka_default,
        )
    return rows


def _group_of(row: Field[Any], groups: Sequence[Group]) -> int:
    facts: _Facts | None = row.metadata.get(_KEY)
    return len(groups) if facts is None else groups.index(facts.group)
