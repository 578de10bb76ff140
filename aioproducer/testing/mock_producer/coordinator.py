"""The coordinator of the in-memory cluster: one transactional id, and all consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    OffsetFetch,
    Response,
    TxnOffsetCommit,
)
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition, TransactionHandle
from aioproducer.testing.sent_record import SentRecord

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

    def respond(self, request: CoordinatorRequest, handle: TransactionHandle) -> Response:
        """The response to a request of the producer ``handle``."""
        match request:
            case FindCoordinator():
                return Response(node=BROKER)
            case OffsetFetch():
                return self._fetch(request)
            case InitProducerId(epoch_bump=False):
                return self._initialize()
        if (handle.producer_id, handle.epoch) != self._identity:
            return Response(_PRODUCER_FENCED)
        match request:
            case InitProducerId():
                return self._initialize()
            case TxnOffsetCommit(offsets=offsets, group=group):
                self.open_offsets.setdefault(group.group_id, {}).update(offsets)
            case EndTxn(committed=committed):
                self._end(committed=committed)
                if handle.version > 1:
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
