"""Produce requests and their responses, version by version. No I/O.

A request is joined from parts that are encoded once. The usual response, in which every batch was
written, is read straight from its bytes. Whatever is unusual goes the long way, by the schema of
the message: an older version, an error code, a tagged field, a long pause, a length or a value that
can't be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.cluster.snapshot import NO_EPOCH, PartitionLeader
from aioproducer.engine.network.frames import EncodedPayload, UsualResponse
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.protocol.codec import length, text
from aioproducer.engine.records.builder import Buffer
from aioproducer.errors import ProtocolError
from aioproducer.foundation import tuning
from aioproducer.model import Node, TopicPartition, TransactionHandle, has_name

_PRODUCE: Final = Api.PRODUCE

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_LAST_VERSION_WITHOUT_ADDING: Final = 11
"""A later version takes its partitions into the transaction (KIP-890)."""
_PARTS_OF_PARTITION: Final = 4

_NO_OFFSET: Final = -1

_TAGS_AT: Final = 4
"""The header's tagged fields are behind the correlation id."""
_LENGTHS: Final = {length + 1: length for length in range(0x7F)}
"""The lengths that take one byte, by that byte."""
_ID_BYTES: Final = 16
_PARTITION: Final = struct.Struct(">ihqqq3s")
"""Index, error code, base offset, log append time, log start offset, :data:`_NO_ERRORS`."""
_ONE_PARTITION: Final = struct.Struct(">hqqq3sBiB")
"""The same without the index, no tagged fields of the topic, and :data:`_END`."""
_NO_ERRORS: Final = b"\x01\x00\x00"
"""No errors of records, no message, no tagged fields."""
_END: Final = struct.Struct(">iB")
"""The pause in milliseconds, no tagged fields."""
_NO_TIME: Final = -1
_LAST_TIME: Final = 2**43
_LONGEST_PAUSE_MS: Final = 1_000
"""A response with a longer pause is not usual: :func:`throttle_seconds` bounds that pause."""


BatchBytes: TypeAlias = tuple[ProducerBatch, Buffer]
"""A batch and its bytes in this request."""

AppendResult: TypeAlias = tuple[int, int, int]
"""The answer about a batch that was appended: its base offset, log append time and log start
offset, as in :class:`PartitionResult`."""


class PartitionResult(NamedTuple):
    """The response's part about one batch."""

    error_code: int
    base_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses ``LogAppendTime``."""
    message: str | None = None
    record_errors: Mapping[int, str | None] | None = None
    """The broker's messages, by the index of the record in its batch (KIP-467)."""
    leader: PartitionLeader | None = None
    """The new leader, if the broker knows it (KIP-951)."""
    log_start_offset: int = -1
    """The first offset of the log; -1: unknown."""


class ProduceResults(NamedTuple):
    """A response that is not as usual, by batch; one that it lacks is not in ``results``.

    The value of a usual response is a list instead, of an :data:`AppendResult` for each batch.
    """

    results: Mapping[ProducerBatch, PartitionResult]
    leaders: Mapping[TopicPartition, PartitionLeader]
    """The new leaders that the broker knows (KIP-951)."""
    nodes: Mapping[int, Node]
    """The addresses of :attr:`leaders`."""


@dataclass(slots=True, eq=False, repr=False)
class ProduceSettings:
    """The options of produce requests."""

    acks: int
    ack_timeout_ms: int
    """Milliseconds that the leader waits for its replicas."""


# --- requests ------------------------------------------------------------------------------------


class ProduceRequest:
    """One batch for each of several partitions of one leader.

    ``topic_ids``: the ids of the topics in ``batches``. ``transaction``: the one that the batches
    are part of.
    """

    __slots__ = ("acks", "answered", "batches", "timeout_ms", "topic_ids", "transaction")

    api: Final = Api.PRODUCE

    def __init__(
        self,
        batches: Sequence[BatchBytes],
        acks: int,
        timeout_ms: int,
        topic_ids: Mapping[str, UUID | None],
        transaction: TransactionHandle | None = None,
    ) -> None:
        self.batches = batches
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_ids = topic_ids
        self.transaction = transaction
        self.answered: bool = acks != 0
        """False: the broker sends no response."""

    @property
    def is_awaited(self) -> bool:
        """False once every batch has failed, after ``delivery_timeout_ms`` or by a purge."""
        return any(not batch.done for batch, _ in self.batches)

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or the highest below it that needs no unknown topic id."""
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and not all(self.topic_ids.values()):
            version = FIRST_VERSION_WITH_TOPIC_IDS - 1
        transactional_id = None
        if self.transaction is not None:
            transactional_id = self.transaction.transactional_id
            if self.transaction.version == 1:
                version = min(version, _LAST_VERSION_WITHOUT_ADDING)
        template: _Template = _template(version, transactional_id, self.acks, self.timeout_ms)
        if len(self.batches) != 1:
            return self._build_several(template)
        batch: ProducerBatch
        [(batch, data)] = self.batches
        topic_partition = batch.topic_partition
        topic_id = self.topic_ids[topic_partition.topic]
        known = template.places.get(topic_partition)
        if known is None or (known[0] is not topic_id and known[0] != topic_id):
            known = template.learn(topic_partition, topic_id)
        _, before, answer_begins = known
        parts = (before, array_length(template.flexible, len(data)), data, template.end)
        usual = template.flexible and self.answered
        read_usual = partial(read_usual_response, answer_begins) if usual else None
        return EncodedPayload(_PRODUCE, template.version, parts, read_usual)

    def _build_several(self, template: _Template) -> EncodedPayload:
        flexible, tags = template.flexible, template.tags
        by_topic: dict[str, list[Buffer]] = {}
        batch: ProducerBatch
        for batch, data in self.batches:
            topic, partition = batch.topic_partition
            by_topic.setdefault(topic, []).extend(
                (
                    _partition_head(template.version, partition),
                    array_length(flexible, len(data)),
                    data,
                    tags,
                )
            )
        parts: list[Buffer] = [template.head, array_length(flexible, len(by_topic))]
        for topic, partitions in by_topic.items():
            count = len(partitions) // _PARTS_OF_PARTITION
            parts += (
                template.topic_head(topic, self.topic_ids[topic]),
                array_length(flexible, count),
                *partitions,
                tags,
            )
        parts.append(tags)
        usual = self._reader_of_several(template)
        return EncodedPayload(Api.PRODUCE, template.version, parts, usual)

    def _reader_of_several(
        self, template: _Template
    ) -> Callable[[bytes], UsualResponse | None] | None:
        if not (template.flexible and self.answered):
            return None
        topics: dict[bytes, str] | None = None
        if template.has_ids:
            topics = {each.bytes: name for name, each in self.topic_ids.items() if each}
        partitions = [batch.topic_partition for batch, _ in self.batches]
        return partial(read_usual_response_of_several, partitions, topics)

    def read(self, response: Any) -> ProduceResults:
        """The content of the response. Raises :class:`ProtocolError` if it is invalid."""
        batches = {batch.topic_partition: batch for batch, _ in self.batches}
        return read_produce_response(response, batches, self.topic_ids)


class _Template:
    """The parts of requests that are the same in all requests of a producer in one version."""

    __slots__ = ("end", "flexible", "has_ids", "head", "places", "tags", "version")

    def __init__(
        self, version: int, transactional_id: str | None, acks: int, timeout_ms: int
    ) -> None:
        schema = request_schema(Api.PRODUCE)
        self.version = version
        self.flexible: bool = schema.flexible(version)
        self.has_ids: bool = version >= FIRST_VERSION_WITH_TOPIC_IDS
        self.tags: bytes = b"\0" if self.flexible else b""
        """The empty tagged fields at the end of a struct."""
        self.end: bytes = self.tags * 3
        """The end of a request with one batch: of its partition, its topic and itself."""
        request = schema.ProduceRequest(transactional_id, acks, timeout_ms)
        self.head: bytes = _head(request, version)
        """The request up to the number of its topics."""
        self.places: dict[TopicPartition, tuple[UUID | None, bytes, bytes]] = {}
        """By partition: the id of its topic, a request with one batch for it up to the length of
        the batch, and the response to it from its header's tags up to the partition's number."""

    def learn(
        self, topic_partition: TopicPartition, topic_id: UUID | None
    ) -> tuple[UUID | None, bytes, bytes]:
        """The entry of a partition in :attr:`places`."""
        topic, partition = topic_partition
        one = array_length(self.flexible, 1)
        place = (
            one + self.topic_head(topic, topic_id) + one + _partition_head(self.version, partition)
        )
        if len(self.places) >= tuning.PLACES_REMEMBERED:
            self.places.clear()
        known = self.places[topic_partition] = topic_id, self.head + place, self.tags + place
        return known

    def topic_head(self, topic: str, topic_id: UUID | None) -> bytes:
        """The id or the name of a topic: no field is before it in any version."""
        if not self.has_ids:
            return text(topic, self.flexible)
        assert topic_id is not None, f"a request of version {self.version} names topics by ids"
        return topic_id.bytes


# Each constant part is encoded once. The variable part is last in its struct.


_template = lru_cache(maxsize=64)(_Template)
array_length = lru_cache(maxsize=4096)(length)


@lru_cache(maxsize=4096)
def _partition_head(version: int, partition: int) -> bytes:
    partition_data = request_schema(Api.PRODUCE).PartitionProduceData(partition)
    return _head(partition_data, version)


def _head(message: Any, version: int) -> bytes:
    """``message``, whose last field is empty, up to the length of that field."""
    schema = request_schema(Api.PRODUCE)
    flexible = schema.flexible(version)
    empty = array_length(flexible, 0) + (b"\0" if flexible else b"")
    return schema.encode(message, version).removesuffix(empty)


# --- any response --------------------------------------------------------------------------------


def read_produce_response(
    response: Any,
    batches: Mapping[TopicPartition, ProducerBatch],
    topic_ids: Mapping[str, UUID | None],
) -> ProduceResults:
    """The results in ``response``, a ``ProduceResponse`` of any version from 7.

    A partition that the response leaves out has no result: the outcome of its batch is unknown. A
    partition that was not in the request, or occurs twice, invalidates the whole response.
    """
    names = {topic_id: name for name, topic_id in topic_ids.items() if topic_id}
    open_batches = dict(batches)
    results: dict[ProducerBatch, PartitionResult] = {}
    for topic in response.responses:
        by_id = topic.topic_id is not None
        name = names.get(topic.topic_id) if by_id else topic.name
        for each in topic.partition_responses:
            batch = open_batches.pop((name, each.index), None)  # type: ignore[call-overload]
            if batch is None:
                called = topic.topic_id if by_id else repr(topic.name)
                raise ProtocolError(
                    f"the response has partition {each.index} of topic {called}, "
                    "which was not in the request, or has it twice"
                )
            results[batch] = _result(each)
    nodes = {
        node.node_id: Node(node.node_id, node.host, node.port, node.rack)
        for node in response.node_endpoints or ()
        if node.node_id >= 0 and has_name(node.host)
    }
    leaders = {
        batch.topic_partition: result.leader
        for batch, result in results.items()
        if result.leader is not None
    }
    return ProduceResults(results, leaders, nodes)


def _result(partition: Any) -> PartitionResult:
    if partition.base_offset < _NO_OFFSET:
        raise ProtocolError(f"the response has the impossible base offset {partition.base_offset}")
    if not partition.error_code:
        start = partition.log_start_offset
        appended_ms = partition.log_append_time_ms
        return PartitionResult(0, partition.base_offset, appended_ms, log_start_offset=start)
    leader_id, leader_epoch = partition.current_leader
    return PartitionResult(
        partition.error_code,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.error_message,
        {
            each.batch_index: each.batch_index_error_message
            for each in partition.record_errors or ()
        },
        PartitionLeader(partition.index, leader_id, leader_epoch)
        if leader_epoch > NO_EPOCH and leader_id >= 0
        else None,
    )


# --- the usual response --------------------------------------------------------------------------


def read_usual_response(begins: bytes, body: bytes) -> UsualResponse | None:
    """The result of the one batch of a request; None: the response is not as usual.

    ``begins``: the response from the tagged fields of its header up to the partition's number.
    """
    at: int = _TAGS_AT + len(begins)
    if len(body) != at + _ONE_PARTITION.size or body[_TAGS_AT:at] != begins:
        return None
    offset: int
    time: int
    code, offset, time, start, rest, topic_tags, pause, tags = _ONE_PARTITION.unpack_from(body, at)
    if (
        code
        or offset < 0
        or not _NO_TIME <= time < _LAST_TIME
        or rest != _NO_ERRORS
        or topic_tags
        or tags
        or not 0 <= pause <= _LONGEST_PAUSE_MS
    ):
        return None
    return [(offset, time, start)], pause / 1000


def read_usual_response_of_several(
    partitions: Sequence[TopicPartition], topics: Mapping[bytes, str] | None, body: bytes
) -> UsualResponse | None:
    """The results of the batches for ``partitions``; None: the response is not as usual.

    ``topics``: their names by the bytes of their ids; None: the response has names.
    """
    appended: dict[tuple[str, int], AppendResult] = {}
    try:
        if body[_TAGS_AT]:
            return None
        at: int = _TAGS_AT + 2
        for _ in range(_LENGTHS[body[at - 1]]):
            if topics is None:
                end = at + 1 + _LENGTHS[body[at]]
                topic = body[at + 1 : end].decode()
            else:
                end = at + _ID_BYTES
                topic = topics[body[at:end]]
            at = end + 1
            for _ in range(_LENGTHS[body[end]]):
                index, code, offset, time, start, rest = _PARTITION.unpack_from(body, at)
                at += _PARTITION.size
                if code or offset < 0 or not _NO_TIME <= time < _LAST_TIME or rest != _NO_ERRORS:
                    return None
                if (topic, index) in appended:
                    return None
                appended[topic, index] = offset, time, start
            at += 1
            if body[at - 1]:
                return None
        pause, tags = _END.unpack_from(body, at)
        found = [appended[partition] for partition in partitions]
    except (LookupError, UnicodeDecodeError, struct.error):
        return None
    whole = at + _END.size == len(body) and not tags and len(appended) == len(found)
    if not whole or not 0 <= pause <= _LONGEST_PAUSE_MS:
        return None
    return found, pause / 1000
