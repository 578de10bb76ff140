"""The arguments of a consumer, as keywords or as the properties of a Java consumer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import iscoroutine
from typing import Any, Final, NamedTuple

from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.config.kinds import Kind, Text, UnacceptableError
from aioproducer.config.names import BY_JAVA_NAME, WITHOUT_EFFECT, unknown_property
from aioproducer.config.options import OPTIONS, Group, Importance, Option
from aioproducer.config.plain_secrets import hidden_properties
from aioproducer.config.producer_config import PropertiesSource, property_value, read_properties
from aioproducer.config.properties import CONFIG_PROVIDERS, Providers
from aioproducer.config.reader_options import READER_OPTIONS, ReaderKeywords
from aioproducer.consumer.options import CONSUMER_OPTIONS, ConsumerKeywords
from aioproducer.consumer.workers import ORDERS
from aioproducer.engine.client.elsewhere import OF_PRODUCERS, refuse_misplaced
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import ModuleLogger

logger = ModuleLogger("aioproducer.config")

ALSO: Final = ("client_rack", "enable_metrics_push")
"""The options of producers that a consumer has as well."""
_STRATEGY: Final = "partition_assignment_strategy"
_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_ASSIGNORS: Final[Mapping[str, str]] = {
    f"{_PACKAGE}RangeAssignor": "range",
    f"{_PACKAGE}RoundRobinAssignor": "roundrobin",
    f"{_PACKAGE}StickyAssignor": "sticky",
    f"{_PACKAGE}CooperativeStickyAssignor": "cooperative-sticky",
}
_OF_PRODUCERS: Final = "the option is one of producers"
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "reading creates no topic",
    "exclude.internal.topics": "patterns never match internal topics",
    "interceptor.classes": "a Consumer has no interceptors",
    "key.deserializer": "pass key_deserializer as a keyword",
    "max.poll.records": "lists(max_records=…) has the number",
    "value.deserializer": "pass value_deserializer as a keyword",
    **{
        name: _OF_PRODUCERS
        for name, option in BY_JAVA_NAME.items()
        if option.name in OF_PRODUCERS and option.name not in (*ALSO, "interceptor_classes")
    },
}


class ConsumerArguments(ProducerOptions, ReaderKeywords, ConsumerKeywords):
    """The keywords of a Consumer."""


class ConsumerOverrides(ConsumerArguments, total=False):
    """Keywords that count instead of properties."""

    group_id: str


def check_group(group_id: Any) -> None:
    """Raise :class:`ConfigError` for what no group takes."""
    if not isinstance(group_id, str) or not group_id.strip():
        raise ConfigError(
            "group_id is the name of the group, a str that is not empty: Consumer('orders', "
            "group_id='billing'). Without a group, read with aioproducer.Reader('orders')"
        )


def check_run(handle: Any, concurrency: Any, order: Any) -> None:
    """Raise :class:`ConfigError` for arguments of ``Consumer.run()`` that it does not take."""
    if iscoroutine(handle):
        handle.close()  # without a warning that nothing has awaited it
        raise ConfigError(f"run() calls the handler, so do not call it: run({handle.__name__})")
    if not callable(handle):
        raise ConfigError(f"a handler is a coroutine function (async def), not {handle!r:.80}")
    check_count("concurrency", concurrency)
    if order not in ORDERS:
        raise ConfigError(f"order is {', '.join(map(repr, ORDERS))}, not {order!r:.80}")


def checked_wait(max_wait_ms: Any) -> float | None:
    """The seconds that a read waits; None: until there is something."""
    if max_wait_ms is None:
        return None
    check_count("max_wait_ms", max_wait_ms)
    return float(max_wait_ms / 1000)


def check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{name} is an int, at least 1, not {number!r:.80}")


class _Assignors(Kind[Any]):
    """The class names of Kafka's assignors, or their short names, the preferred one first."""

    wording = f"class names of {', '.join(name.removeprefix(_PACKAGE) for name in _ASSIGNORS)}"

    def accept(self, value: object) -> str | list[str]:
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, Iterable):
            raise UnacceptableError(self.wording)
        names = [str(each).strip() for each in value]
        found = [_ASSIGNORS.get(name, name) for name in names]
        if not found or not set(found) <= set(_ASSIGNORS.values()):
            raise UnacceptableError(self.wording)
        return found if len(found) > 1 else found[0]


_GROUP_ID: Final = Option(
    "group_id",
    "group.id",
    Text(empty=False),
    Group.READING,
    Importance.HIGH,
    required=True,
    default=None,
    kafka_default=None,
)
_OWN: Final[Mapping[str, Option]] = {
    option.java_name: option
    for option in (
        _GROUP_ID,
        *READER_OPTIONS.values(),
        *CONSUMER_OPTIONS.values(),
        CONSUMER_OPTIONS[_STRATEGY]._replace(kind=_Assignors()),
        OPTIONS["max_block_ms"]._replace(java_name="default.api.timeout.ms"),
    )
}


class ConsumerProperties(NamedTuple):
    """The properties of a Java consumer: no value that may be a secret is shown."""

    own: Mapping[str, Any]
    """Those that only consumers have."""
    others: Mapping[str, Any]

    @classmethod
    def of(cls, source: PropertiesSource) -> ConsumerProperties:
        """Read ``source``. Raises :class:`ConfigError` if it is a file that can't be read."""
        given = source if isinstance(source, Mapping) else read_properties(source)
        own = {name: value for name, value in given.items() if name in _OWN}
        others = {name: value for name, value in given.items() if name not in _OWN}
        return cls(own, hidden_properties(others))


def arguments_of_properties(
    properties: ConsumerProperties, overrides: dict[str, Any], name: str
) -> dict[str, Any]:
    """The keywords of a Consumer; ``overrides`` count instead of ``properties``.

    ``name``: the class, for errors. Raises :class:`ConfigError`.
    """
    own_names = {option.name for option in _OWN.values()}
    arguments = {each: overrides.pop(each) for each in own_names & overrides.keys()}
    hide_secrets(overrides)
    refuse_misplaced(overrides, name, ALSO)
    providers = Providers.of(properties.others)
    for java_name, value in properties.own.items():
        option = _OWN[java_name]
        if option.name not in arguments:
            arguments[option.name] = property_value(option, value, providers)
    if "group_id" not in arguments:
        raise ConfigError(
            "group.id is missing: name the group in the properties, or as a keyword: "
            f"{name}.from_properties(…, group_id='billing')"
        )
    connections = _connections(properties.others)
    arguments["config"] = ProducerConfig.from_properties(connections, **overrides)
    return arguments


def _connections(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that a ProducerConfig reads. Those without effect are named in one warning."""
    found: dict[str, Any] = {}
    without_effect: list[str] = []
    for name, value in properties.items():
        if name in _WITHOUT_EFFECT:
            without_effect.append(f"{name} ({_WITHOUT_EFFECT[name]})")
        elif (
            name in BY_JAVA_NAME
            or name in WITHOUT_EFFECT
            or f"{name}.".startswith(f"{CONFIG_PROVIDERS}.")
        ):
            found[name] = value
        else:
            raise unknown_property(name, _OWN)
    if without_effect:
        logger.warning("properties without effect: %s", "; ".join(sorted(without_effect)))
    return found
