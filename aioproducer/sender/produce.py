"""Produce requests and responses, version by version. No I/O."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from kio.static.protocol import RequestPayload

from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.cluster.snapshot import NO_EPOCH, PartitionInfo
from aioproducer.model import Node
from aioproducer.network.apis import Api, request_module

_FIRST_VERSION_WITH_TOPIC_IDS = 13


class EncodedBatch(NamedTuple):
    """A batch and its bytes in this request."""

    batch: ProducerBatch
    data: bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """One batch each for several partitions that one broker leads."""

    batches: Sequence[EncodedBatch]
    acks: int
    timeout_ms: int
    topic_ids: Mapping[str, UUID | None]
    """Of the topics in ``batches``."""
    api: Api = Api.PRODUCE

    @property
    def answered(self) -> bool:
        """With ``acks=0`` the broker says nothing."""
        return self.acks != 0

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``, or the highest below it that needs no unknown topic id."""
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS and not all(self.topic_ids.values()):
            version = _FIRST_VERSION_WITH_TOPIC_IDS - 1
        module = request_module(Api.PRODUCE, version)
        by_topic: dict[str, list[Any]] = {}
        for batch, data in self.batches:
            topic, partition = batch.topic_partition
            by_topic.setdefault(topic, []).append(
                module.PartitionProduceData(index=partition, records=data)
            )
        request: RequestPayload = module.ProduceRequest(
            transactional_id=None,
            acks=self.acks,
            timeout=datetime.timedelta(milliseconds=self.timeout_ms),
            topic_data=tuple(
                module.TopicProduceData(
                    **self._identify(topic, version), partition_data=tuple(partitions)
                )
                for topic, partitions in by_topic.items()
            ),
        )
        return request

    def _identify(self, topic: str, version: int) -> dict[str, Any]:
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            return {"topic_id": self.topic_ids[topic]}
        return {"name": topic}


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What the response says of one batch."""

    error_code: int
    base_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses ``LogAppendTime``."""
    message: str | None = None
    record_errors: Mapping[int, str | None] | None = None
    """By the index of the record in its batch (KIP-467)."""
    leader: PartitionInfo | None = None
    """The new leader, where the broker knows it (KIP-951)."""


class ProduceResults(NamedTuple):
    """A response, by batch; a batch that it lacks is not in ``results``."""

    results: Mapping[ProducerBatch, PartitionResult]
    nodes: Mapping[int, Node]
    """The addresses of the leaders that the results name."""


def read_produce_response(request: ProduceRequest, response: Any) -> ProduceResults:
    """``response``: kio's ``ProduceResponse`` of any version from 7."""
    names = {topic_id: name for name, topic_id in request.topic_ids.items() if topic_id}
    found = {
        (names.get(topic.topic_id) if hasattr(topic, "topic_id") else topic.name, each.index): each
        for topic in response.responses
        for each in topic.partition_responses
    }
    results = {
        batch: _result(found[batch.topic_partition])
        for batch, _ in request.batches
        if batch.topic_partition in found
    }
    nodes = {
        int(node.node_id): Node(int(node.node_id), node.host, node.port, node.rack)
        for node in getattr(response, "node_endpoints", ())
    }
    return ProduceResults(results, nodes)


def _result(partition: Any) -> PartitionResult:
    appended: datetime.datetime | None = partition.log_append_time
    leader = getattr(partition, "current_leader", None)
    return PartitionResult(
        error_code=int(partition.error_code),
        base_offset=int(partition.base_offset),
        log_append_time_ms=-1 if appended is None else round(appended.timestamp() * 1000),
        message=getattr(partition, "error_message", None),
        record_errors=dict(_record_errors(partition)),
        leader=(
            PartitionInfo(int(partition.index), int(leader.leader_id), int(leader.leader_epoch))
            if leader is not None and leader.leader_epoch != NO_EPOCH
            else None
        ),
    )


def _record_errors(partition: Any) -> Iterator[tuple[int, str | None]]:
    for each in getattr(partition, "record_errors", ()):
        yield int(each.batch_index), each.batch_index_error_message
