"""The idempotent producer's identity. No I/O.

A broker remembers for each producer id and partition the sequence numbers it has seen, so a batch
that is sent twice is written once, and one that overtakes another is refused.
"""

from __future__ import annotations

from enum import Enum

from aioproducer.model import TopicPartition
from aioproducer.records.record_batch import NO_PRODUCER_STATE, ProducerState, next_sequence


class IdentityState(Enum):
    """How far the identity has come."""

    UNUSED = "unused"
    """``enable_idempotence`` is off; batches carry no numbers."""
    NEEDED = "needed"
    """To be asked for before the next batch leaves."""
    REQUESTED = "requested"
    READY = "ready"
    EXHAUSTED = "exhausted"
    """A numbered batch was lost: nothing leaves until all in flight is answered, then a new
    identity is asked for."""


class ProducerIdentity:
    """Producer id, epoch, and the next sequence number of each partition."""

    def __init__(self, *, idempotent: bool) -> None:
        self.state = IdentityState.NEEDED if idempotent else IdentityState.UNUSED
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def usable(self) -> bool:
        """Whether batches may leave."""
        return self.state in (IdentityState.READY, IdentityState.UNUSED)

    def requested(self) -> None:
        """An InitProducerId request is on its way."""
        self.state = IdentityState.REQUESTED

    def refused(self) -> None:
        """It failed; ask again."""
        self.state = IdentityState.NEEDED

    def assigned(self, producer_id: int, epoch: int) -> None:
        """A broker assigned the identity; sequences begin at 0."""
        self._producer_id = producer_id
        self._epoch = epoch
        self._sequences.clear()
        self.state = IdentityState.READY

    def stamp(self, partition: TopicPartition, count: int) -> ProducerState:
        """The numbers for the next batch of ``partition``, which has ``count`` records."""
        if self.state is IdentityState.UNUSED:
            return NO_PRODUCER_STATE
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = next_sequence(sequence, count)
        return ProducerState(self._producer_id, self._epoch, sequence)

    def lost(self) -> None:
        """A numbered batch failed for good, which leaves a gap that no broker would accept."""
        if self.state is IdentityState.READY:
            self.state = IdentityState.EXHAUSTED

    def retired(self) -> None:
        """Nothing is in flight any more under the lost identity."""
        self.state = IdentityState.NEEDED
