"""Checks of a call's arguments for both shells, done before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from aioproducer.engine.client.arguments import check_partition as check_partition
from aioproducer.engine.client.arguments import check_timeout as check_timeout
from aioproducer.engine.client.arguments import checked_topic as checked_topic
from aioproducer.errors import (
    ConfigError,
    InvalidOffsetError,
    InvalidTimestampError,
    SerializationError,
)
from aioproducer.model import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
    TransactionHandle,
)


def refuse_pickle(client_id: str) -> NoReturn:
    """Refuse to pickle a producer: it has connections, tasks and buffered records."""
    raise SerializationError(
        f"the producer {client_id!r} can't be pickled: pass producer.config, which can, and make a "
        "Producer of it in the other process"
    )


def check_timestamp(timestamp_ms: Any, topic: str) -> None:
    """Raise :class:`InvalidTimestampError` unless ``timestamp_ms`` can be one."""
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 2**63:
        raise InvalidTimestampError(
            "timestamp_ms must be an int (milliseconds since the epoch), as in "
            f"int(time.time() * 1000), not {timestamp_ms!r} (topic {topic!r})"
        )


def check_handle(handle: Any) -> None:
    """Raise :class:`ConfigError` unless it is the handle of a transaction."""
    if not isinstance(handle, TransactionHandle):
        raise ConfigError(
            "transaction is the TransactionHandle that another producer's transaction_handle() "
            f"returned, not {type(handle).__name__}"
        )
    numbers = (handle.producer_id, handle.epoch, handle.version)
    if (
        not isinstance(handle.transactional_id, str)
        or any(type(number) is not int for number in numbers)
        or not 0 <= handle.producer_id < 2**63
        or not 0 <= handle.epoch < 2**15
        or handle.version not in (1, 2)
    ):
        raise ConfigError(f"this can't be the handle of an open transaction: {handle}")


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Consumed offsets, as clients of Kafka have them.

    ``offsets``: a mapping of ``(topic, partition)`` to an offset, or to ``(offset, metadata, leader
    epoch)``; or an iterable of objects with ``topic``, ``partition`` and ``offset``. An object with
    a negative offset is left out, because nothing was read yet. Raises :class:`InvalidOffsetError`.
    """
    if isinstance(offsets, Mapping):
        return {_place(place): _offset(place, each) for place, each in offsets.items()}
    try:
        listed = list(offsets)
    except TypeError:
        raise InvalidOffsetError(
            "offsets are a mapping of TopicPartition to the next offset to read, not "
            f"{type(offsets).__name__}"
        ) from None
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for each in listed:
        offset = getattr(each, "offset", None)
        place = _place(each)
        if not isinstance(offset, int) or offset >= 0:
            said = (offset, getattr(each, "metadata", None), getattr(each, "leader_epoch", None))
            found[place] = _offset(place, said)
    return found


def _place(place: Any) -> TopicPartition:
    if isinstance(place, tuple) and len(place) == 2:
        topic, partition = place
    else:
        topic, partition = getattr(place, "topic", None), getattr(place, "partition", None)
    if not isinstance(topic, str) or not _is_int32(partition) or partition < 0:
        raise InvalidOffsetError(
            f"offsets are by topic and partition: TopicPartition(topic, number), not {place!r}"
        )
    return TopicPartition(checked_topic(topic), partition)


def _offset(place: Any, given: Any) -> OffsetAndMetadata:
    said = (*given, None, None) if isinstance(given, tuple) else (given, None, None)
    epoch = getattr(given, "leader_epoch", said[2])
    if epoch is not None and (not _is_int32(epoch) or epoch < 0):
        epoch = None
    known = OffsetAndMetadata(said[0], "" if said[1] is None else said[1], epoch)
    if type(known.offset) is not int or not 0 <= known.offset < 2**63:
        raise InvalidOffsetError(
            f"{place}: an offset is an int from 0, the next one to read, not {known.offset!r}"
        )
    if known.metadata != "":
        _check_text(known.metadata, f"{place}: an offset's metadata")
    return known


def checked_places(places: Any) -> frozenset[TopicPartition]:
    """Partitions, as clients of Kafka have them. Raises :class:`InvalidOffsetError`."""
    try:
        listed = list(places)
    except TypeError:
        raise InvalidOffsetError(
            f"partitions are an iterable of TopicPartition, not {type(places).__name__}"
        ) from None
    return frozenset(_place(place) for place in listed)


def checked_group(group: Any) -> ConsumerGroupMetadata:
    """The consumer: its group's id, or an object that also has generation and member id."""
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    generation, member = getattr(group, "generation_id", -1), getattr(group, "member_id", "")
    found = ConsumerGroupMetadata(
        getattr(group, "group_id", None) or "",
        -1 if generation is None else generation,
        "" if member is None else member,
        getattr(group, "group_instance_id", None),
    )
    if not isinstance(found.group_id, str) or not found.group_id:
        raise InvalidOffsetError(
            "the consumer group is its id, or a ConsumerGroupMetadata (another client's "
            f"will do if it has group_id, generation_id and member_id), not {group!r}"
        )
    if not _is_int32(found.generation_id):
        raise InvalidOffsetError(f"a generation of a group is an int, not {found.generation_id!r}")
    _check_text(found.group_id, "the consumer group's id")
    _check_text(found.member_id, "the consumer's member_id")
    if found.group_instance_id is not None:
        _check_text(found.group_instance_id, "the consumer's group_instance_id")
    return found


def _is_int32(number: Any) -> bool:
    return type(number) is int and -(2**31) <= number < 2**31


def _check_text(text: Any, what: str) -> None:
    """Raise :class:`InvalidOffsetError` unless a request can carry ``text``."""
    if not isinstance(text, str):
        raise InvalidOffsetError(f"{what} is a str, not {text!r:.80}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidOffsetError(f"{what} can't be encoded as UTF-8: {text!r:.80}") from None
    if size >= 2**15:
        raise InvalidOffsetError(f"{what} has at most 32,767 bytes, not {size}")


class _NoValue:
    """The type of ``NO_VALUE``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE: Final[Any] = _NoValue()
"""The default of ``send(value=)``: None means a tombstone, so it must be asked for."""


def given_record(
    topic: Any,
    value: Any,
    key: Any,
    partition: int | None,
    headers: Headers | None,
    timestamp_ms: int | None,
) -> tuple[Any, Any, Any, int | None, Headers | None, int | None]:
    """The fields of a record, which are the arguments of ``send()`` or a :class:`ProducerRecord`.

    Raises :class:`SerializationError` without a value, or for more than a ``ProducerRecord``.
    """
    if not isinstance(topic, ProducerRecord):
        if value is NO_VALUE:
            raise SerializationError(
                f"send() got no value (topic {topic!r:.80}): pass one, or value=None to write a "
                "tombstone, which deletes the key on a compacted topic"
            )
        return topic, value, key, partition, headers, timestamp_ms
    others = (None if value is NO_VALUE else value, key, partition, headers, timestamp_ms)
    if any(other is not None for other in others):
        raise SerializationError(
            "a ProducerRecord is the only argument of send(): it carries value, key, "
            "partition, headers and timestamp_ms itself"
        )
    return topic.fields()


def one_by_one(values: Any, kinds: str) -> Iterable[Any]:
    """An iterable over the values of ``send_many()``; ``kinds``: allowed types, for messages."""
    if type(values) is list or type(values) is tuple:
        return cast(Iterable[Any], values)
    if isinstance(values, str | bytes | bytearray | memoryview):
        raise SerializationError(
            f"send_many() takes an iterable of values, not a single {type(values).__name__}: "
            "use send(), or put it into a list"
        )
    if isinstance(values, Mapping):
        raise SerializationError(
            f"send_many() takes an iterable of values, not a single {type(values).__name__}: pass "
            "records as [ProducerRecord(topic, value, key=key), ...], or one value as [value]"
        )
    try:
        iterator: Iterable[Any] = iter(values)
    except TypeError:
        raise SerializationError(
            f"send_many() takes {kinds} of values, not {type(values).__name__}"
        ) from None
    return iterator
