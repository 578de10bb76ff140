"""The in-memory cluster: one broker with topics, their offsets and their records.

:class:`SentRecord` is a record that a :class:`MockProducer` has delivered. The coordinator serves
one transactional id, and all consumer groups.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.client.requests import (
    ClusterDescription,
    CoordinatorLookup,
    DescribeRequest,
    GroupPermission,
    MetadataRequest,
    PartitionDescription,
    TopicDescription,
    TransactionalIdPermission,
)
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.network.request import Request
from aioproducer.engine.records.field_reader import read_records
from aioproducer.engine.sender.produce import PartitionResult
from aioproducer.engine.sender.producer_id import AssignedIdentity, InitProducerIdRequest
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    InitProducerId,
    OffsetFetch,
    Response,
    TransactionRequest,
    TxnOffsetCommit,
)
from aioproducer.errors import ConfigError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.model import (
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    TopicPartition,
    TransactionHandle,
)


@dataclass(frozen=True, slots=True)
class SentRecord(ProducerRecord[Any, Any]):
    """A delivered record, with the fields that a consumer reads.

    ``key`` and ``value`` are the serialized bytes (or None), and ``headers`` are pairs.
    ``partition`` and ``timestamp_ms`` are those that were used.
    """

    offset: int = -1
    """The offset in the partition."""
    original: ProducerRecord[Any, Any] | None = None
    """The record passed to ``send()``, after interceptors and before serialization."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was written to."""
        assert self.partition is not None
        return TopicPartition(self.topic, self.partition)

    def as_read(self) -> ConsumerRecord:
        """The record as a consumer would read it."""
        assert self.partition is not None
        assert self.timestamp_ms is not None
        headers = tuple(self.headers or ())
        return ConsumerRecord(
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            "CreateTime",
            self.key,
            self.value,
            headers,  # type: ignore[arg-type]  # always pairs here
        )


BROKER: Final = Node(1, "mock", 9092)
PRODUCER_ID: Final = 1000
_INVALID_PRODUCER_EPOCH: Final = 47
_UNSTABLE_OFFSET_COMMIT: Final = 88
_PRODUCER_FENCED: Final = 90

NumberedRecord = tuple[int, SentRecord]
"""A record, and its place in the order of ``send()``."""


class InMemoryCoordinator:
    """Knows the present epoch, and keeps the open transaction apart from what is committed."""

    def __init__(self) -> None:
        self.commit_count = 0
        """The number of committed transactions that wrote something."""
        self.committed: list[NumberedRecord] = []
        """The records of committed transactions, until the cluster takes them."""
        self.open_records: list[NumberedRecord] = []
        self.open_offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        """The committed offsets, by group."""
        self.offsets_history: list[dict[str, dict[TopicPartition, OffsetAndMetadata]]] = []
        """The offsets of each committed transaction that had some."""
        self._identity = (PRODUCER_ID, -1)

    def join(self, handle: TransactionHandle) -> None:
        """Take the transaction of ``handle`` for the open one."""
        self._identity = handle.producer_id, handle.epoch

    def fence(self) -> None:
        """Do as if another producer had started with the transactional id."""
        self._end(committed=False)
        producer_id, epoch = self._identity
        self._identity = producer_id, epoch + 1

    def refuses(self, producer_id: int, epoch: int) -> int:
        """The error code for a batch of an older epoch; 0: the batch is taken."""
        return 0 if (producer_id, epoch) == self._identity else _INVALID_PRODUCER_EPOCH

    def respond(self, request: CoordinatorRequest | CoordinatorLookup) -> Response:
        """The response to ``request``."""
        match request:
            case CoordinatorLookup():
                return Response(node=BROKER)
            case OffsetFetch():
                return self._fetch(request)
            case InitProducerId(epoch_bump=False):
                return self._initialize()
        assert isinstance(request, TransactionRequest)
        producer = request.producer
        if (producer.producer_id, producer.epoch) != self._identity:
            return Response(_PRODUCER_FENCED)
        match request:
            case InitProducerId():
                return self._initialize()
            case TxnOffsetCommit(offsets=offsets, group=group):
                self.open_offsets.setdefault(group.group_id, {}).update(offsets)
            case EndTxn(committed=committed):
                self._end(committed=committed)
                if producer.version > 1:
                    return self._next_epoch()
            case AddPartitionsToTxn() | AddOffsetsToTxn():
                pass
            case _:
                raise NotImplementedError(
                    f"the in-memory coordinator knows no {request.describe()}"
                )
        return Response()

    def _initialize(self) -> Response:
        self._end(committed=False)
        return self._next_epoch()

    def _next_epoch(self) -> Response:
        producer_id, epoch = self._identity
        self._identity = producer_id, epoch + 1
        return Response(producer_id=producer_id, epoch=epoch + 1)

    def _end(self, *, committed: bool) -> None:
        if committed:
            self.commit_count += 1
            self.committed += self.open_records
            for group, offsets in self.open_offsets.items():
                self.offsets.setdefault(group, {}).update(offsets)
            if self.open_offsets:
                self.offsets_history.append(self.open_offsets)
        self.open_records, self.open_offsets = [], {}

    def _fetch(self, request: OffsetFetch) -> Response:
        """Committed offsets; offsets that the open transaction changes are waited for (KIP-447)."""
        open_ones: Mapping[TopicPartition, object] = self.open_offsets.get(request.group_id, {})
        if not request.partitions.isdisjoint(open_ones):
            return Response(_UNSTABLE_OFFSET_COMMIT)
        known = self.offsets.get(request.group_id, {})
        return Response(offsets={each: known[each] for each in request.partitions if each in known})


CLUSTER_ID: Final = "in-memory"
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
            case GroupPermission() | TransactionalIdPermission():
                return 0
            case InitProducerIdRequest():
                return AssignedIdentity(0, PRODUCER_ID, 0)
            case CoordinatorRequest() | CoordinatorLookup():
                response = self.coordinator.respond(request)
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
                name: error_about(f"topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
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
            return TopicDescription(topic, None, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
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
