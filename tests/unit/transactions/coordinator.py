"""A transaction coordinator, small enough to be believed.

Written from Kafka 4's ``TransactionCoordinator`` and ``TransactionMetadata``, without regard to how
the producer is written. What batches and offsets need of their brokers is here as well: these ask
the coordinator before they write (KIP-890), in version 1 whether the partition was taken in, in
version 2 to take it in.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from aioproducer.engine.transactions.requests import Response
from aioproducer.model import TopicPartition, TransactionHandle

EXHAUSTED: Final = 2**15 - 2
"""The last epoch of a producer id that a client gets."""
NO_EPOCH: Final = -1
INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, CONCURRENT, FENCED = 47, 48, 49, 51, 90


class State(Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMPLETE_COMMIT = "complete commit"
    COMPLETE_ABORT = "complete abort"


PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETE = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}


class Write(NamedTuple):
    """A batch, or consumed offsets, of the producer's transaction number ``transaction``."""

    transaction: int
    number: int


class TransactionCoordinator:
    """The state of one transactional id, and what became of everything that was written."""

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.state = State.EMPTY
        self.producer_id = 1000
        self.epoch = epoch
        self.last_epoch = NO_EPOCH
        self.last_producer_id = -1
        self.partitions: set[TopicPartition | str] = set()
        """Those in the open transaction; groups by their names."""
        self.open: list[Write] = []
        self.committed: set[Write] = set()
        self.aborted: set[Write] = set()

    # --- what producers ask --------------------------------------------------------------------

    def assign(self, kept: tuple[int, int] | None) -> Response:
        """InitProducerId; ``kept``: the producer id and epoch that whoever asks has."""
        if self.state in PREPARED:
            return Response(CONCURRENT)
        if kept is not None and self.epoch != NO_EPOCH and not self._is_known(*kept):
            return Response(FENCED)
        if self.state is State.ONGOING:
            self.abort_from_here()
            return Response(CONCURRENT)
        expected = None if kept is None else kept[1]
        if self.epoch >= EXHAUSTED and expected in (None, self.epoch):
            self._rotate(NO_EPOCH if expected is None else self.epoch)
        elif expected is None or expected == self.epoch or self.epoch == NO_EPOCH:
            self.last_epoch = NO_EPOCH if expected is None else self.epoch
            self.epoch += 1
        elif expected != self.last_epoch:
            return Response(FENCED)
        self.state = State.EMPTY
        return Response(producer_id=self.producer_id, epoch=self.epoch)

    def _is_known(self, producer_id: int, epoch: int) -> bool:
        rotated = producer_id == self.last_producer_id and epoch >= EXHAUSTED
        return producer_id == self.producer_id or rotated

    def _rotate(self, last_epoch: int) -> None:
        self.last_producer_id, self.producer_id = self.producer_id, self.producer_id + 1
        self.last_epoch, self.epoch = last_epoch, 0

    def add(self, handle: TransactionHandle, *places: TopicPartition | str) -> int:
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code."""
        code = self._check(handle)
        if code or self.state in PREPARED:
            return code or CONCURRENT
        if self.state is not State.ONGOING:
            self.partitions.clear()
            self.state = State.ONGOING
        self.partitions |= set(places)
        return 0

    def _check(self, handle: TransactionHandle) -> int:
        if self.state in PREPARED and handle.version == 2:
            return CONCURRENT  # the pending transition goes first
        if handle.producer_id != self.producer_id:
            return INVALID_MAPPING
        return FENCED if handle.epoch != self.epoch else 0

    def write(self, handle: TransactionHandle, place: TopicPartition | str, write: Write) -> int:
        """A batch or offsets come to their broker: an error code."""
        if handle.version == 1 and (write in self.committed or write in self.aborted):
            return 0  # in one epoch a broker knows a batch again by its sequence number
        if handle.version == 2:
            code = self.add(handle, place)
        else:
            code = self._check(handle)
            if not code and (self.state is not State.ONGOING or place not in self.partitions):
                code = INVALID_STATE
        if code in (FENCED, INVALID_MAPPING):
            code = INVALID_EPOCH
        if not code and write not in self.open:
            self.open.append(write)
        return code

    def end(self, handle: TransactionHandle, *, committed: bool) -> Response:
        """EndTxn."""
        if handle.version == 2:
            return self._end_with_epoch(handle, committed)
        code = self._check(handle)
        if code:
            return Response(code)
        if self.state is State.ONGOING:
            self._prepare(committed)
            return Response()
        before = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
        if self.state is before:
            return Response(CONCURRENT)
        return Response() if self.state is COMPLETE[before] else Response(INVALID_STATE)

    def _end_with_epoch(self, handle: TransactionHandle, committed: bool) -> Response:
        """Version 2: the epoch grows with each end, so it tells a repetition from the next end."""
        if self.state in PREPARED:
            return Response(CONCURRENT)
        rotated = (
            handle.producer_id == self.last_producer_id
            and handle.epoch == EXHAUSTED
            and self.epoch == 0
        )
        if handle.producer_id != self.producer_id and not rotated:
            return Response(INVALID_MAPPING)
        complete = self.state in COMPLETE.values()
        again = complete and (rotated or self.epoch == handle.epoch + 1)
        if not again and handle.epoch != self.epoch:
            return Response(FENCED)
        if again:
            same = self.state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
            return self._identity() if same else Response(INVALID_STATE)
        if self.state is not State.ONGOING and committed:
            return Response(INVALID_STATE)
        self._prepare(committed)
        if self.epoch >= EXHAUSTED:
            self._rotate(self.epoch)
        else:
            self.last_epoch, self.epoch = self.epoch, self.epoch + 1
        return self._identity()

    def _identity(self) -> Response:
        return Response(producer_id=self.producer_id, epoch=self.epoch)

    # --- what it does by itself ----------------------------------------------------------------

    def _prepare(self, committed: bool) -> None:
        self.state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
        (self.committed if committed else self.aborted).update(self.open)
        self.open.clear()
        self.partitions.clear()

    def complete(self) -> None:
        """The markers are written."""
        self.state = COMPLETE.get(self.state, self.state)

    def abort_from_here(self) -> None:
        """The transaction took too long, or another producer comes: its epoch is fenced."""
        if self.state is State.ONGOING:
            self.epoch += 1
            self.last_epoch = NO_EPOCH
            self._prepare(committed=False)
