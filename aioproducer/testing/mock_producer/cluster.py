"""The in-memory cluster: one broker with topics, their offsets and their records."""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.client.describe_request import (
    ClusterDescription,
    DescribeRequest,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.network.request import Request
from aioproducer.engine.records.reader import read_records
from aioproducer.engine.sender.produce import PartitionResult
from aioproducer.engine.sender.requests import (
    AssignedIdentity,
    InitProducerIdRequest,
    MetadataRequest,
    TransactionRequest,
)
from aioproducer.errors import ConfigError, UnsupportedVersionError, error_about
from aioproducer.model import PartitionInfo, ProducerRecord
from aioproducer.testing.mock_producer.coordinator import (
    BROKER,
    PRODUCER_ID,
    InMemoryCoordinator,
    NumberedRecord,
)
from aioproducer.testing.sent_record import SentRecord

CLUSTER_ID: Final = "in-memory"
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_NO_TIMESTAMP: Final = -1
_MOST_PARTITIONS: Final = 100_000


class InMemoryCluster:
    """Answers the requests of one producer, and keeps its records.

    ``partitions``: of each topic, or by topic; topics that such a mapping lacks do not exist.
    """

    def __init__(self, partitions: int | Mapping[str, int]) -> None:
        self.coordinator = InMemoryCoordinator()
        self._of_any_topic: int | None = None
        self._topics: dict[str, list[int]] = {}
        """The next offset of each partition."""
        self._records: list[NumberedRecord] = []
        """The visible records, in the order of ``send()``."""
        if isinstance(partitions, Mapping):
            for topic, number in partitions.items():
                self._create(checked_topic(topic), number)
        else:
            self._of_any_topic = _checked_number(partitions)

    @property
    def history(self) -> list[SentRecord]:
        """The records that a consumer with ``read_committed`` would read."""
        return [record for _, record in self._records]

    def forget_records(self) -> None:
        """Drop the visible records; topics and offsets stay as they are."""
        self._records.clear()

    # --- records ---------------------------------------------------------------------------

    def write(
        self, batch: ProducerBatch, number: int, original: ProducerRecord[Any, Any]
    ) -> PartitionResult:
        """Append the one record of ``batch``; ``number`` is its place in the order of sends."""
        state = batch.state
        if state.transactional:
            code = self.coordinator.refuses(state.producer_id, state.producer_epoch)
            if code:
                return PartitionResult(code, -1, _NO_TIMESTAMP)
        topic, partition = batch.topic_partition
        offsets = self._topics[topic]
        offset = offsets[partition]
        offsets[partition] += 1
        [written] = read_records(batch.builder)
        record = SentRecord(
            topic,
            written.value,
            written.key,
            partition,
            written.headers,
            written.timestamp_ms,
            offset,
            original,
        )
        if state.transactional:
            self.coordinator.open_records.append((number, record))
        else:
            self._show([(number, record)])
        return PartitionResult(0, offset, _NO_TIMESTAMP)

    def _show(self, records: Iterable[NumberedRecord]) -> None:
        for each in records:
            insort(self._records, each, key=lambda numbered: numbered[0])

    # --- requests --------------------------------------------------------------------------

    def respond(self, request: Request) -> Any:
        """The value that is read from the response to ``request``."""
        match request:
            case MetadataRequest():
                return self._reading(request)
            case DescribeRequest(topics=topics):
                names = self._topics if topics is None else topics
                found = {name: self._describe(name) for name in names}
                return ClusterDescription(0, CLUSTER_ID, BROKER.id, {BROKER.id: BROKER}, found)
            case InitProducerIdRequest():
                return AssignedIdentity(0, PRODUCER_ID, 0)
            case TransactionRequest():
                response = self.coordinator.respond(request.request, request.handle)
                self._show(self.coordinator.committed)
                self.coordinator.committed.clear()
                return response
        raise UnsupportedVersionError(f"the in-memory cluster answers no {request.api.name}")

    def _reading(self, request: MetadataRequest) -> Generator[None, None, MetadataNews]:
        """The metadata, which its caller reads in steps."""
        yield
        names = sorted(request.asked.topics)
        counts = {name: count for name in names if (count := self._partitions(name)) is not None}
        return MetadataNews(
            {BROKER.id: BROKER},
            {
                name: TopicInfo(
                    name, None, tuple(PartitionLeader(each, BROKER.id) for each in range(count))
                )
                for name, count in counts.items()
            },
            {
                name: error_about(f"topic {name!r}", _UNKNOWN_TOPIC_OR_PARTITION)
                for name in names
                if name not in counts
            },
            details={
                name: tuple(
                    PartitionInfo(name, each, BROKER, (BROKER,), (BROKER,))
                    for each in range(counts[name])
                )
                for name in request.detailed
                if name in counts
            },
            cluster_id=CLUSTER_ID,
        )

    def _describe(self, topic: str) -> TopicDescription:
        count = self._partitions(topic)
        if count is None:
            return TopicDescription(topic, None, False, _UNKNOWN_TOPIC_OR_PARTITION, ())
        here = (BROKER.id,)
        partitions = (
            PartitionDescription(each, BROKER.id, -1, here, here) for each in range(count)
        )
        return TopicDescription(topic, None, False, 0, tuple(partitions), may_write=True)

    # --- topics ----------------------------------------------------------------------------

    def _partitions(self, topic: str) -> int | None:
        """The number of a topic's partitions; None: there is no such topic."""
        if topic not in self._topics:
            if self._of_any_topic is None:
                return None
            self._create(topic, self._of_any_topic)
        return len(self._topics[topic])

    def _create(self, topic: str, partitions: int) -> None:
        self._topics[topic] = [0] * _checked_number(partitions)


def _checked_number(partitions: object) -> int:
    if type(partitions) is not int or not 1 <= partitions <= _MOST_PARTITIONS:
        raise ConfigError(
            "partitions is a number of partitions, or a mapping of topics to such numbers, and not "
            f"{partitions!r:.100}"
        )
    return partitions
