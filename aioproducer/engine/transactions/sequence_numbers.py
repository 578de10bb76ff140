"""The idempotent producer's identity: producer id, epochs, sequence numbers. No I/O.

A broker remembers for each producer id and partition the sequence numbers that it has seen. So a
batch that is sent twice is written once, and nothing is written after a batch that is missing:
:mod:`aioproducer.engine.sender.gaps` is about those.

``BatchSender._number`` stamps batches that leave. A batch whose outcome is unknown keeps its
number, and is sent again with it (``outcomes.decide_error``). ``Gaps.close`` begins a new epoch of
a partition, and ``Partition.renumber`` takes the numbers of its queued batches back. The
``TransactionManager`` gets the epochs of transactions.

Source: Kafka's ``TransactionManager`` and ``TxnPartitionMap``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.model import TopicPartition

MAX_EPOCH: Final = 2**15 - 1
_LAST_SEQUENCE: Final = 2**31 - 1


class ProducerIdState(Enum):
    """The stages of an identity."""

    UNUSED = "unused"
    """``enable_idempotence`` is off; batches carry no numbers."""
    NEEDED = "needed"
    """A broker is asked for it before the next batch leaves."""
    REQUESTED = "requested"
    READY = "ready"


class _Numbers:
    """The numbers of one partition."""

    __slots__ = ("epoch", "producer_id", "sequence")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0


class SequenceNumbers:
    """Producer id, and the epoch and the next sequence number of each partition."""

    def __init__(self, *, idempotent: bool, transactional: bool = False) -> None:
        self.state = ProducerIdState.NEEDED if idempotent else ProducerIdState.UNUSED
        if transactional:
            self.state = ProducerIdState.REQUESTED
        self.usable: bool = not idempotent and not transactional
        """True if batches may leave."""
        self.transactional = transactional
        """True: the identity comes from a coordinator, and all partitions have one epoch."""
        self.on_need: Callable[[], None] = lambda: None
        """Called when the state becomes :attr:`ProducerIdState.NEEDED`."""
        self._producer_id: int = -1
        self._epoch: int = -1
        self._numbers: dict[TopicPartition, _Numbers] = {}
        self.former: set[int] = set()
        """The ids that former clusters assigned."""

    def _enter(self, state: ProducerIdState) -> None:
        self.state = state
        self.usable = state is ProducerIdState.READY
        if state is ProducerIdState.NEEDED:
            self.on_need()

    def requested(self) -> None:
        """An InitProducerId request is on its way."""
        self._enter(ProducerIdState.REQUESTED)

    def refused(self) -> None:
        """The request failed; ask again."""
        self._enter(ProducerIdState.NEEDED)

    def assigned(self, producer_id: int, epoch: int) -> None:
        """A broker assigned the identity, for the partitions that have no numbers yet."""
        self._producer_id = producer_id
        self._epoch = epoch
        self._enter(ProducerIdState.READY)

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        """A coordinator assigned the identity; every partition's numbers begin at 0."""
        self._numbers.clear()
        self.assigned(producer_id, epoch)

    def leave_cluster(self) -> None:
        """Another cluster gets the next batches: it has to assign an id, and numbers begin at 0."""
        self._numbers.clear()
        if self.state is not ProducerIdState.UNUSED:
            self.former.add(self._producer_id)
            self._enter(ProducerIdState.NEEDED)

    def is_current(self, topic_partition: TopicPartition, state: ProducerState) -> bool:
        """True if the numbers of a batch are not those of a former cluster."""
        return state is NO_PRODUCER_STATE or topic_partition in self._numbers

    @property
    def fresh(self) -> bool:
        """True if no batch was numbered yet in the epoch of :meth:`begin_epoch`."""
        return not self._numbers

    def stamp(self, topic_partition: TopicPartition, count: int) -> ProducerState:
        """The numbers for the next batch of ``topic_partition``, which has ``count`` records."""
        if self.state is ProducerIdState.UNUSED:
            return NO_PRODUCER_STATE
        numbers: _Numbers | None = self._numbers.get(topic_partition)
        if numbers is None:
            numbers = self._numbers[topic_partition] = _Numbers(self._producer_id, self._epoch)
        sequence: int = numbers.sequence
        numbers.sequence = (sequence + count) & _LAST_SEQUENCE  # as next_sequence()
        return ProducerState(numbers.producer_id, numbers.epoch, sequence, self.transactional)

    def renew(self, topic_partition: TopicPartition) -> None:
        """Begin at 0 in a new epoch: brokers refuse later batches of an older one.

        After the last epoch, a new producer id is needed.
        """
        numbers: _Numbers = self._numbers.pop(topic_partition)
        if numbers.epoch < MAX_EPOCH:
            self._numbers[topic_partition] = _Numbers(numbers.producer_id, numbers.epoch + 1)
        elif self.state is ProducerIdState.READY:
            self._enter(ProducerIdState.NEEDED)
