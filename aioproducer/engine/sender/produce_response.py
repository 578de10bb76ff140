"""Produce responses, version by version. No I/O.

The usual response, in which every batch was written, is read straight from its bytes. Unusual
responses go the long way, by the schema of the message: an older version, an error code, a tagged
field, a long pause, a length or a value that can't be.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.cluster.snapshot import NO_EPOCH, PartitionLeader
from aioproducer.engine.network.frames import UsualResponse
from aioproducer.errors import ProtocolError
from aioproducer.model import Node, TopicPartition

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

_NO_OFFSET: Final = -1

_TAGS_AT: Final = 4
"""The header's tagged fields come after the correlation id."""
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


Place: TypeAlias = tuple[int, int, int]
"""The place of a batch in the log: its base offset, log append time and log start offset, as in
:class:`PartitionResult`."""


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

    The value of a usual response is a list instead, with the place of each batch.
    """

    results: Mapping[ProducerBatch, PartitionResult]
    leaders: Mapping[TopicPartition, PartitionLeader]
    """The new leaders that the broker knows (KIP-951)."""
    nodes: Mapping[int, Node]
    """The addresses of :attr:`leaders`."""


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
        if node.node_id >= 0
    }
    leaders = {
        batch.topic_partition: result.leader
        for batch, result in results.items()
        if result.leader is not None
    }
    return ProduceResults(results, leaders, nodes)


def _result(partition: Any) -> PartitionResult:
    appended_ms = partition.log_append_time_ms
    if partition.base_offset < _NO_OFFSET:
        raise ProtocolError(f"the response has the impossible base offset {partition.base_offset}")
    if not partition.error_code:
        start = partition.log_start_offset
        return PartitionResult(0, partition.base_offset, appended_ms, log_start_offset=start)
    leader_id, leader_epoch = partition.current_leader
    return PartitionResult(
        partition.error_code,
        partition.base_offset,
        appended_ms,
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
    """The place of the one batch of a request; None: the response is not as usual.

    ``begins``: the response from the tagged fields of its header up to the partition's number.
    """
    at = _TAGS_AT + len(begins)
    if len(body) != at + _ONE_PARTITION.size or body[_TAGS_AT:at] != begins:
        return None
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
    """The places of the batches for ``partitions``; None: the response is not as usual.

    ``topics``: their names by the bytes of their ids; None: the response has names.
    """
    places: dict[tuple[str, int], Place] = {}
    try:
        if body[_TAGS_AT]:
            return None
        at = _TAGS_AT + 2
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
                if (topic, index) in places:
                    return None
                places[topic, index] = offset, time, start
            at += 1
            if body[at - 1]:
                return None
        pause, tags = _END.unpack_from(body, at)
        found = [places[partition] for partition in partitions]
    except (LookupError, UnicodeDecodeError, struct.error):
        return None
    whole = at + _END.size == len(body) and not tags and len(places) == len(found)
    if not whole or not 0 <= pause <= _LONGEST_PAUSE_MS:
        return None
    return found, pause / 1000
