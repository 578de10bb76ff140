"""The partitions of a topic, and the choice of the sticky one for keyless records (KIP-794)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import TypeVar

from aioproducer.engine.accumulator.partition import Backlogs, Partition
from aioproducer.engine.accumulator.producer_batch import (
    AccumulatorSettings,
    BatchGrowth,
    BatchSizes,
)
from aioproducer.engine.cluster.snapshot import PartitionLeader
from aioproducer.engine.partitioning import PartitionFunction, Partitions
from aioproducer.engine.records.acceleration import OpenBuilders
from aioproducer.errors import InvalidPartitionError
from aioproducer.foundation import tuning
from aioproducer.model import TopicPartition

_P = TypeVar("_P")


class Topic:
    """The partitions of one topic, and the sticky one among them."""

    __slots__ = (
        "_backlogs",
        "_pending",
        "_produced_before",
        "growth",
        "name",
        "open_builders",
        "partitions",
        "retired",
        "seen_by_partitioner",
        "share",
    )

    def __init__(self, name: str, backlogs: Backlogs) -> None:
        self.name = name
        self._backlogs = backlogs
        self.partitions: list[Partition] = []
        self.retired: dict[int, Partition] = {}
        """Partitions that a recreated topic lacks, while they have batches left."""
        self.seen_by_partitioner: Partitions | None = None
        """The view of a user's partitioner; None: to be made for its next record."""
        self.share = 0
        """Bytes that :attr:`sticky` gets before the next choice. The choice fixes it: if it grew
        with the batches, slow brokers would get more records than others."""
        self._produced_before = 0
        """:attr:`Partition.produced` of :attr:`sticky` when it was chosen."""
        self._pending = 0
        """Bytes of the pending records that :attr:`sticky` got."""
        self.growth = BatchGrowth()
        """The size of the next batch that a keyless record begins."""
        self.open_builders = OpenBuilders()
        """The builders that records may join, and the number of the sticky partition."""

    @property
    def sticky(self) -> Partition | None:
        """The partition of keyless records at present; None: to be chosen."""
        number: int = self.open_builders.sticky
        return self.partitions[number] if number >= 0 else None

    @property
    def is_busy(self) -> bool:
        """True if a batch or a pending record is here."""
        return any(each.is_busy for each in [*self.partitions, *self.retired.values()])

    def all_partitions(self) -> list[Partition]:
        """The partitions that the topic has, and the retired ones."""
        return [*self.partitions, *self.retired.values()]

    def find(self, number: int) -> Partition | None:
        """The partition ``number``, also a retired one; None: the topic lacks it."""
        if number < len(self.partitions):
            return self.partitions[number]
        return self.retired.get(number)

    def resize(
        self,
        leaders: Sequence[PartitionLeader],
        fresh: Mapping[int, Partition] = MappingProxyType({}),
    ) -> list[Partition]:
        """Set the number of partitions; if the topic was recreated with fewer, the others retire.

        ``leaders``: the known leader of each. ``fresh``: new partitions, made before, for the
        missing numbers. Returns the new partitions. The caller moves leaders next, before a record
        asks for its partition.
        """
        self.seen_by_partitioner = None
        builders, count, new = self.open_builders, len(leaders), []
        for number in range(len(self.partitions), count):
            partition = self.retired.pop(number, None)
            if partition is None:
                partition = fresh.get(number) or self.make(leaders[number])
                new.append(partition)
            partition.join(builders)
            self.partitions.append(partition)
        for partition in self.partitions[count:]:
            self.retired[partition.number] = partition
            partition.close_batch()
        if builders.sticky >= count:
            builders.sticky = -1
        del self.partitions[count:]
        kept = builders.partitions[:count]
        builders.partitions = kept + [None] * (count - len(kept))  # at once: other threads read it
        return new

    def drop_idle(self) -> None:
        """Drop the retired partitions that have nothing left."""
        self.retired = {number: each for number, each in self.retired.items() if each.is_busy}

    def make(self, known: PartitionLeader) -> Partition:
        """A partition without batches, which is not in the topic yet."""
        name = TopicPartition(self.name, known.partition)
        return Partition(name, self._backlogs, known.leader)

    # --- the sticky partition ----------------------------------------------------------------

    def stick_to(self, partition: Partition, share: int) -> None:
        """Send the next ``share`` bytes of keyless records to ``partition``."""
        self.open_builders.sticky = partition.number
        self.share = share
        self._produced_before = partition.produced
        self._pending = 0

    def unstick_before(self, size: int) -> None:
        """Choose anew if the batches of the choice and ``size`` bytes are more than the share."""
        sticky = self.sticky
        if sticky is not None and sticky.produced - self._produced_before + size > self.share:
            self.open_builders.sticky = -1

    def unstick_after_pending(self, size: int) -> None:
        """Choose anew for the next record if ``size`` more pending bytes exceed the share."""
        self._pending += size
        if self._pending > self.share:
            self.open_builders.sticky = -1

    # --- the user's partitioner --------------------------------------------------------------

    def ask(self, partitioner: PartitionFunction, key: bytes | None, value: bytes | None) -> int:
        """The partition that a user's partitioner chooses.

        Raises :class:`InvalidPartitionError` if it fails or names one that does not exist.
        """
        count = len(self.partitions)
        try:
            chosen = partitioner(self.name, key, value, self._as_seen_by_partitioner())
        except Exception as error:
            called = " (it gets topic, key, value, partitions)" if type(error) is TypeError else ""
            raise InvalidPartitionError(
                f"the partitioner failed for a record of topic {self.name!r}: "
                f"{type(error).__name__}: {error}{called}"
            ) from error
        if type(chosen) is bool or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidPartitionError(
                f"the partitioner returned {chosen!r} for topic {self.name!r}, which has the "
                f"partitions 0 to {count - 1}"
            )
        return chosen

    def _as_seen_by_partitioner(self) -> Partitions:
        if self.seen_by_partitioner is None:
            led = (each for each in self.partitions if each.leader is not None)
            available = tuple(each.topic_partition.partition for each in led)
            self.seen_by_partitioner = Partitions(len(self.partitions), available)
        return self.seen_by_partitioner


class StickyChoice:
    """Chooses the sticky partition, and the moment of the next choice.

    A partition without a leader is chosen only if no partition has one. With
    ``adaptive_partitioning``, partitions with more queued batches are chosen less often
    (:func:`load`), and a partition whose leader has no memory left for a batch only if no other
    has; ``has_room`` tells. With an availability timeout
    (``partitioner_availability_timeout_ms``), partitions are left out whose leader has taken no
    batch for so long. While there are partitions with a near leader (KIP-1123), no others are
    chosen. Of many partitions, a random sample is looked at.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        random: Random,
        has_room: Callable[[int | None, int], bool],
        sizes: BatchSizes,
    ) -> None:
        self._random = random
        self._sizes = sizes
        self._is_near = settings.is_near
        self._adaptive = settings.adaptive_partitioning
        self._availability_timeout = settings.availability_timeout if self._adaptive else None
        self._has_room = has_room

    def choose(self, topic: Topic, now: float) -> Partition:
        """Choose again."""
        share = self._sizes.share(topic.growth)
        partitions = topic.partitions
        if len(partitions) == 1:
            topic.stick_to(partitions[0], share)
            return partitions[0]
        led: list[Partition] = []
        if len(partitions) > tuning.PARTITIONS_SAMPLED:
            led = self._near(
                self._available(self._random.sample(partitions, tuning.PARTITIONS_SAMPLED), now)
            )
        if not led:
            available = self._available(partitions, now) or _led(partitions)
            led = self._near(available) or available
        if self._adaptive and led:
            candidates = self._roomy(led, share)
            loads = [*map(load, candidates)]
            chosen = next_sticky_partition(self._random, candidates, loads)
        else:
            chosen = next_sticky_partition(self._random, led or partitions)
        topic.stick_to(chosen, share)
        return chosen

    def _available(self, partitions: Sequence[Partition], now: float) -> list[Partition]:
        """The partitions with a leader that takes batches."""
        led, timeout = _led(partitions), self._availability_timeout
        if timeout is None:
            return led
        waits = [(each, each.backlog.not_ready_since) for each in led]
        return [each for each, since in waits if since is None or now - since <= timeout]

    def _near(self, led: list[Partition]) -> list[Partition]:
        """The partitions with a near leader, if that matters."""
        is_near = self._is_near
        if is_near is None:
            return led
        return [each for each in led if each.leader is not None and is_near(each.leader)]

    def _roomy(self, led: list[Partition], size: int) -> list[Partition]:
        """The partitions whose leaders have memory for a batch of ``size``; all, if none has."""
        leaders = {each.leader for each in led}
        roomy = {leader for leader in leaders if self._has_room(leader, size)}
        if not roomy or len(roomy) == len(leaders):
            return led
        return [each for each in led if each.leader in roomy]

    def for_batch(self, topic: Topic, size: int, now: float) -> Partition:
        """The partition for a record of ``size`` bytes that begins a batch.

        The sticky partition changes only when a batch begins, so no batch leaves half full for it.
        """
        topic.unstick_before(size)
        return topic.sticky or self.choose(topic, now)

    def for_pending(self, topic: Topic, size: int, now: float) -> Partition:
        """The partition for a pending record of ``size`` bytes, which keeps it."""
        partition = topic.sticky or self.choose(topic, now)
        topic.unstick_after_pending(size)
        return partition


def _led(partitions: Sequence[Partition]) -> list[Partition]:
    return [each for each in partitions if each.leader is not None]


def load(partition: Partition) -> int:
    """The number of queued batches, and of other partitions that wait for the same leader.

    Partitions only wait for a leader while it takes no batch.
    """
    backlog = partition.backlog
    waiting = 0 if backlog.not_ready_since is None else len(backlog.partitions)
    return len(partition.queue) + waiting


def next_sticky_partition(
    random: Random, partitions: Sequence[_P], queue_sizes: Sequence[int] | None = None
) -> _P:
    """A random partition among ``partitions``; a longer queue of batches makes it less likely.

    Without ``queue_sizes`` all are equally likely. A partition's weight is
    ``max(queue_sizes) + 1 - queue_size``. Source: KIP-794, ``BuiltInPartitioner``.
    """
    if queue_sizes is None or min(queue_sizes) == (longest := max(queue_sizes)):
        return partitions[random.randrange(len(partitions))]
    heaviest = longest + 1
    point = random.random() * (heaviest * len(partitions) - sum(queue_sizes))
    for partition, size in zip(partitions, queue_sizes, strict=True):
        point -= heaviest - size
        if point < 0:
            return partition
    return partitions[-1]
