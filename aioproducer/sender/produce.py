"""Produce requests and responses, version by version. No I/O."""

from __future__ import annotations

import datetime
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from kio.serial.writers import (
    write_compact_array_length,
    write_empty_tagged_fields,
    write_legacy_array_length,
)
from kio.static.primitive import i32

from aioproducer.accumulator import ProducerBatch
from aioproducer.cluster.snapshot import NO_EPOCH, PartitionLeader
from aioproducer.errors import ProtocolError
from aioproducer.model import Node, TransactionHandle
from aioproducer.network.apis import Api, request_module
from aioproducer.network.frames import Buffer, EncodedPayload, encode

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_NO_OFFSET = -1
_LAST_VERSION_WITHOUT_ADDING = 11
"""A later version takes its partitions into the transaction (KIP-890)."""


class EncodedBatch(NamedTuple):
    """A batch and its bytes in this request."""

    batch: ProducerBatch
    data: Buffer


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """One batch for each of several partitions of one leader."""

    batches: Sequence[EncodedBatch]
    acks: int
    timeout_ms: int
    topic_ids: Mapping[str, UUID | None]
    """The ids of the topics in ``batches``."""
    transaction: TransactionHandle | None = None
    """The transaction that the batches are part of."""
    api: Api = Api.PRODUCE

    @property
    def answered(self) -> bool:
        """False with ``acks=0``: the broker sends no response."""
        return self.acks != 0

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or the highest below it that needs no unknown topic id."""
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS and not all(self.topic_ids.values()):
            version = _FIRST_VERSION_WITH_TOPIC_IDS - 1
        transactional_id = None
        if self.transaction is not None:
            transactional_id = self.transaction.transactional_id
            if self.transaction.version == 1:
                version = min(version, _LAST_VERSION_WITHOUT_ADDING)
        kind: Any = request_module(Api.PRODUCE, version).ProduceRequest
        flexible = kind.__flexible__
        tags = _no_tags(flexible)
        by_topic: dict[str, list[EncodedBatch]] = {}
        for each in self.batches:
            by_topic.setdefault(each.batch.topic_partition.topic, []).append(each)
        parts: list[Buffer] = [
            _request_head(version, transactional_id, self.acks, self.timeout_ms),
            array_length(flexible, len(by_topic)),
        ]
        for topic, batches in by_topic.items():
            named = self.topic_ids[topic] if version >= _FIRST_VERSION_WITH_TOPIC_IDS else topic
            parts += (_topic_head(version, named), array_length(flexible, len(batches)))
            for batch, data in batches:
                partition = batch.topic_partition.partition
                parts += (
                    _partition_head(version, partition),
                    array_length(flexible, len(data)),
                    data,
                    tags,
                )
            parts.append(tags)
        parts.append(tags)
        return EncodedPayload(kind, parts)

    def read(self, response: Any) -> ProduceResults:
        """The content of the response. Raises :class:`ProtocolError` if it is invalid."""
        return read_produce_response(self, response)


# Most parts of a request equal the previous request's, and kio's encoder is slow. So kio encodes
# each constant part once. The variable part is last in its struct, with its length in front. Topics
# are not constant: a cold start has thousands of them.


@lru_cache(maxsize=256)
def _request_head(version: int, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    module = request_module(Api.PRODUCE, version)
    timeout = datetime.timedelta(milliseconds=timeout_ms)
    return _head(
        module.ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout=timeout, topic_data=()
        )
    )


@lru_cache(maxsize=65_536)
def _topic_head(version: int, topic: str | UUID | None) -> bytes:
    """The id or the name: no field is before it in any version."""
    if isinstance(topic, UUID):
        return topic.bytes
    assert topic is not None, f"a request of version {version} has a topic without a name"
    return text(_is_flexible(version), topic)


@cache
def _is_flexible(version: int) -> bool:
    return bool(request_module(Api.PRODUCE, version).TopicProduceData.__flexible__)


@lru_cache(maxsize=4096)
def _partition_head(version: int, partition: int) -> bytes:
    module = request_module(Api.PRODUCE, version)
    return _head(module.PartitionProduceData(index=partition, records=b""))


def _head(entity: Any) -> bytes:
    """``entity``, whose last field is empty, up to the length of that field."""
    flexible = entity.__flexible__
    return encode(entity).removesuffix(array_length(flexible, 0) + _no_tags(flexible))


@lru_cache(maxsize=4096)
def array_length(flexible: bool, length: int) -> bytes:
    """The length in front of an array or of bytes."""
    wire = io.BytesIO()
    if flexible:
        write_compact_array_length(wire, length)
    else:
        write_legacy_array_length(wire, i32(length))
    return wire.getvalue()


def text(flexible: bool, value: str) -> bytes:
    """A string that is not null, with its length in front."""
    encoded = value.encode()
    length = len(encoded)
    return (array_length(True, length) if flexible else length.to_bytes(2, "big")) + encoded


@cache
def _no_tags(flexible: bool) -> bytes:
    """The empty tagged fields at the end of a struct."""
    wire = io.BytesIO()
    if flexible:
        write_empty_tagged_fields(wire)
    return wire.getvalue()


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
    """A response, by batch; a batch that it lacks is not in ``results``."""

    results: Mapping[ProducerBatch, PartitionResult]
    nodes: Mapping[int, Node]
    """The addresses of the leaders that the results name."""


def read_produce_response(request: ProduceRequest, response: Any) -> ProduceResults:
    """The results in ``response``, kio's ``ProduceResponse`` of any version from 7.

    A partition that the response leaves out has no result: the outcome of its batch is unknown. A
    partition that was not in the request, or occurs twice, invalidates the whole response.
    """
    names = {topic_id: name for name, topic_id in request.topic_ids.items() if topic_id}
    by_id = response.__version__ >= _FIRST_VERSION_WITH_TOPIC_IDS
    open_batches = {batch.topic_partition: batch for batch, _ in request.batches}
    results: dict[ProducerBatch, PartitionResult] = {}
    for topic in response.responses:
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
        int(node.node_id): Node(int(node.node_id), node.host, node.port, node.rack)
        for node in getattr(response, "node_endpoints", None) or ()
        if node.node_id >= 0
    }
    return ProduceResults(results, nodes)


def _result(partition: Any) -> PartitionResult:
    appended: datetime.datetime | None = partition.log_append_time
    appended_ms = -1 if appended is None else round(appended.timestamp() * 1000)
    if partition.base_offset < _NO_OFFSET:
        raise ProtocolError(f"the response has the impossible base offset {partition.base_offset}")
    if not partition.error_code:
        start = int(getattr(partition, "log_start_offset", -1))
        return PartitionResult(0, int(partition.base_offset), appended_ms, log_start_offset=start)
    leader = getattr(partition, "current_leader", None)
    return PartitionResult(
        int(partition.error_code),
        int(partition.base_offset),
        appended_ms,
        getattr(partition, "error_message", None),
        {
            int(each.batch_index): each.batch_index_error_message
            for each in getattr(partition, "record_errors", None) or ()
        },
        PartitionLeader(int(partition.index), int(leader.leader_id), int(leader.leader_epoch))
        if leader is not None and leader.leader_epoch > NO_EPOCH and leader.leader_id >= 0
        else None,
    )
