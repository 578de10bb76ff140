"""Options, methods and names that are somewhere else: the error says what to use here. No I/O.

:func:`client_config` refuses options of producers and of other consumers when an Admin, a Reader or
a Consumer is made. :func:`elsewhere` marks the methods that a class does not have, and
:func:`no_such_name` finds the module that has a name that the package itself lacks.

Methods are marked by a descriptor for each name, which costs the other attributes nothing. With
``__getattr__`` every attribute of the class would be looked up more slowly. ``dir()`` of an object
leaves the names out, and so do the editors and shells that ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import getattr_static
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

from aioproducer.config import ProducerConfig
from aioproducer.config.names import belongs_to_consumers
from aioproducer.config.options import OPTIONS
from aioproducer.config.producer_config import configuration
from aioproducer.errors import ConfigError

OF_PRODUCERS: Final = frozenset(
    {
        "acks",
        "batch_size",
        "buffer_memory",
        "client_rack",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "enable_idempotence",
        "enable_metrics_push",
        "interceptor_classes",
        "key_serializer",
        "linger_ms",
        "max_request_size",
        "on_failed",
        "partitioner",
        "partitioner_adaptive_partitioning_enable",
        "partitioner_availability_timeout_ms",
        "partitioner_ignore_keys",
        "partitioner_rack_aware",
        "retries",
        "transaction_timeout_ms",
        "transactional_id",
        "value_serializer",
    }
)
"""The options that only concern producers."""
_INSTEAD: Final[Mapping[str, str]] = {
    "default_api_timeout_ms": "use max_block_ms",
    "enable_auto_commit": "use auto_commit",
    "max_poll_records": "leave it out, lists(max_records=...) has the number",
}
"""Options of other consumers, with the advice for each, to one who makes a Consumer."""
_OPTIONS_OF_MEMBERS: Final = frozenset({"auto_commit", "enable_auto_commit", "group_id"})


def client_config(
    config: ProducerConfig | None,
    options: Mapping[str, Any],
    name: str,
    also: Collection[str] = (),
    own: Collection[str] = (),
) -> ProducerConfig:
    """The configuration by the arguments of a client's constructor; ``name``: the client's class.

    ``also``: options of producers that this client has as well. ``own``: those that no producer
    has, for suggestions.

    The caller has hidden secrets in both: they are in its frame, too.

    A ``config`` may be shared with a producer, so its options for producers are ignored. Such an
    option as a keyword is a mistake. Raises :class:`ConfigError`.
    """
    refuse_misplaced(options, name, also)
    _refuse_misspelled(options, own)
    return configuration(config, options, name)


def _refuse_misspelled(options: Mapping[str, Any], own: Collection[str]) -> None:
    """Raise :class:`ConfigError` for keywords that mean an option in ``own``."""
    for each in sorted(options.keys() - OPTIONS.keys()):
        from difflib import get_close_matches

        if (nearest := get_close_matches(each, {*OPTIONS, *own}, n=1)) and nearest[0] in own:
            raise ConfigError(f"unknown option {each!r}; did you mean {nearest[0]!r}?")


def refuse_misplaced(options: Mapping[str, Any], name: str, also: Collection[str]) -> None:
    """Raise :class:`ConfigError` for keywords that only concern producers or other consumers."""
    misplaced = sorted(OF_PRODUCERS.intersection(options).difference(also))
    if misplaced:
        raise ConfigError(
            f"{', '.join(misplaced)}: {name}() has no such option, a Producer has; leave it out"
        )
    for each in sorted(options):
        if belongs_to_consumers(each) or each in _OPTIONS_OF_MEMBERS:
            advice = _INSTEAD.get(each, "leave it out") if name == "Consumer" else _advice(each)
            raise ConfigError(f"{name}() has no option {each!r}: {advice}")


def _advice(name: str) -> str:
    """The advice to one who makes a Reader or an Admin."""
    if name in _OPTIONS_OF_MEMBERS or name.startswith(("group_", "heartbeat_", "max_poll_")):
        return "only a member of a group has it, a Consumer"
    return _INSTEAD.get(name, "leave it out")


ASYNC_WITH: Final = "use `async with`"
_BY_SLOT: Final = frozenset({"__await__", "__iter__"})
"""Python replaces an error of their descriptors by its own, so they are methods."""
_C = TypeVar("_C", bound=type)


class NotHereError(AttributeError, TypeError):
    """The class has another kind of ``with`` or ``for``. ``hasattr()`` is False, as it should."""


class _Elsewhere:
    """A method that another client has, a field of another object, or the other kind of ``with``.

    ``name``: as people write it.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.__doc__ = f"Not here: {instead}"
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        error = NotHereError if self._name.startswith("__") else AttributeError
        raise error(f"{owner.__name__} has no {self._name}: {self._instead}")

    def as_method(self) -> Callable[[object], NoReturn]:
        return lambda instance: self.__get__(instance, type(instance))


def elsewhere(**instead: str) -> Callable[[_C], _C]:
    """A decorator of a class: names of other clients' methods, and the advice for each.

    ``__enter__`` or ``__aenter__`` stands for the kind of ``with`` that the class does not have,
    ``__iter__`` for a plain ``for``, and ``__await__`` for ``await``.
    """
    return _marked({name: _Elsewhere(f"{name}()", advice) for name, advice in instead.items()})


def fields_elsewhere(**instead: str) -> Callable[[_C], _C]:
    """The same for fields that belong to another object."""
    return _marked({name: _Elsewhere(name, advice) for name, advice in instead.items()})


def _marked(names: Mapping[str, _Elsewhere]) -> Callable[[_C], _C]:
    def mark(cls: _C) -> _C:
        for name, place in names.items():
            setattr(cls, name, place.as_method() if name in _BY_SLOT else place)
        cls.__dir__ = _own_names  # type: ignore[method-assign, assignment]
        return cls

    return mark


def _own_names(self: object) -> Iterable[str]:
    """Replaces ``object.__dir__``."""
    cls = type(self)
    return [
        name
        for name in object.__dir__(self)
        if not isinstance(getattr_static(cls, name, None), _Elsewhere)
    ]


def in_other_producers(*, close: str, send: str) -> dict[str, str]:
    """The methods of other producers with the advice for each.

    ``close``, ``send``: the calls that end ours, and that wait for a record's delivery.
    """
    return {
        "stop": f"use {close}",
        "send_and_wait": f"use {send}",
        "produce": "use send(), which returns a future",
        "poll": "leave it out, a future of send() gets its result without it",
        "list_topics": "use aioproducer.Admin, or partitions_for(topic)",
    }


def _in_other_consumers(name: str, **others: str) -> dict[str, str]:
    def seek(to: str) -> str:
        return f"use `await {name}.seek(partition, {to!r})`"

    loop = f"use `async for record in {name}`"
    return {
        "__enter__": ASYNC_WITH,
        "__iter__": loop,
        **dict.fromkeys(("poll", "getone", "getmany", "consume"), loop),
        "stop": f"use `await {name}.close()`, or `async with`",
        "seek_to_beginning": seek("beginning"),
        "seek_to_end": seek("end"),
        **others,
    }


_OF_MEMBERS: Final = "only a member of a group does, a Consumer"
FOR_A_READER: Final = _in_other_consumers(
    "reader", **dict.fromkeys(("commit", "subscribe", "seek_to_committed"), _OF_MEMBERS)
)
"""The methods of other consumers with the advice for each, to one who holds a Reader."""
FOR_A_CONSUMER: Final = _in_other_consumers(
    "consumer",
    seek_to_committed="use `await consumer.seek(partition, 'committed')`",
    unsubscribe="use `await consumer.close()`, or `subscribe()` to other topics",
    assign="use aioproducer.Reader, which needs no group",
    **dict.fromkeys(("poll", "getone"), "use `await consumer.record(max_wait_ms=1000)`"),
    **dict.fromkeys(
        ("getmany", "consume"),
        "use `async for records in consumer.lists(500, max_wait_ms=1000)`",
    ),
)
"""The same, to one who holds a Consumer."""


_NAMES: Final = {
    "aioproducer.admin": ("NewTopic",),
    "aioproducer.consumer": ("ConsumerOptions",),
    "aioproducer.failed_records": ("DeadLetterFile", "DeadLetterTopic"),
    "aioproducer.reader": ("ConsumerRecord", "RecordBatch"),
    "aioproducer.schema_registry": ("AvroSerializer", "ProtobufSerializer", "SchemaRegistry"),
    "aioproducer.serialization": ("JsonDeserializer", "JsonSerializer", "StringSerializer"),
    "aioproducer.testing": ("KafkaCluster", "MockCluster", "MockProducer", "SyncMockProducer"),
}
_LINES: Final = {
    **{name: f"from {module} import {name}" for module, names in _NAMES.items() for name in names},
    "AIOKafkaConsumer": "from aioproducer.compat.aiokafka import AIOKafkaConsumer",
    "AIOKafkaProducer": "from aioproducer.compat.aiokafka import AIOKafkaProducer",
    "AdminClient": "from aioproducer import Admin",
    "AsyncProducer": "from aioproducer import Producer",
    "KafkaConsumer": "from aioproducer import Consumer",
    "KafkaProducer": "from aioproducer.sync import Producer",
    "SyncProducer": "from aioproducer.sync import Producer",
}


def no_such_name(name: str, asked_by: FrameType) -> Exception:
    """The error if the package has no ``name``, with the line to write if another module has it.

    An ``import`` asks as ``hasattr()`` does and would replace the AttributeError by an ImportError
    without the line, so it gets an ImportError. ``asked_by``: the caller's frame.
    """
    line = _LINES.get(name)
    if line is None:
        return AttributeError(f"module 'aioproducer' has no attribute {name!r}")
    hint = f"write `{line}`"
    if asked_by.f_code.co_name == "_handle_fromlist":
        return ImportError(f"cannot import name {name!r} from 'aioproducer': {hint}", name=name)
    return AttributeError(f"module 'aioproducer' has no attribute {name!r}: {hint}", name=name)
