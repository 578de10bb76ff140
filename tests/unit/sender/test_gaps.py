"""Breaks in the sequence numbers of partitions: what may still leave, and how they end."""

from __future__ import annotations

from typing import Final, TypeAlias

import pytest

from aioproducer.engine.accumulator import Backlogs, Partition, ProducerBatch
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.engine.sender.gaps import EVERYTHING_WITH_A_NUMBER, Gaps, barrier_of_gap
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.model import BatchOrder, TopicPartition
from tests.unit.accumulator.world import AccumulatorWorld

ONE: Final = TopicPartition("t", 0)
TWO: Final = TopicPartition("t", 1)
BACKLOGS: Final = Backlogs(one_at_a_time=False, in_order=True)
Happens: TypeAlias = tuple[str, BatchOrder]


def ready(epoch: int = 0) -> SequenceNumbers:
    identity = SequenceNumbers(idempotent=True)
    identity.requested()
    identity.assigned(7, epoch)
    return identity


def gaps_of(identity: SequenceNumbers, transactions: TransactionManager | None = None) -> Gaps:
    return Gaps(AccumulatorWorld().batches, identity, transactions)


def partition(name: TopicPartition = ONE) -> Partition:
    return Partition(name, BACKLOGS)


def numbered(place: BatchOrder, owner: Partition) -> ProducerBatch:
    batch = ProducerBatch(owner.topic_partition, bytearray(100), 100, 10.0, 130.0)
    batch.partition = owner
    batch.order = place
    batch.state = ProducerState(7, 0, int(place))
    return batch


@pytest.mark.parametrize(
    ("happens", "barrier"),
    [
        ([], None),
        ([("missing", 3)], 3),
        ([("missing", 3), ("missing", 5)], 3),
        ([("missing", 3), ("missing", 2)], 2),
        ([("doubtful", 3)], EVERYTHING_WITH_A_NUMBER),
        ([("doubtful", 3), ("delivered", 2)], EVERYTHING_WITH_A_NUMBER),
        ([("doubtful", 3), ("delivered", 4)], None),
        ([("doubtful", 3), ("doubtful", 5), ("delivered", 4)], EVERYTHING_WITH_A_NUMBER),
        ([("doubtful", 3), ("doubtful", 5), ("delivered", 6)], None),
        ([("doubtful", 3), ("missing", 4)], 4),
        ([("missing", 4), ("doubtful", 3), ("delivered", 3)], 4),
        ([("missing", 4), ("delivered", 3)], 4),
        ([("delivered", 9)], None),
    ],
)
def test_what_may_still_leave(happens: list[Happens], barrier: BatchOrder | None) -> None:
    gaps, one, two = gaps_of(ready()), partition(), partition(TWO)
    for what, place in happens:
        if what == "delivered":
            gaps.delivered(numbered(place, one))
        else:
            gaps.left_by(numbered(place, one), uncertain=what == "doubtful")
    assert barrier_of_gap(one) == barrier
    assert barrier is None or one in gaps.partitions
    assert two not in gaps.partitions, "it is the business of one partition"


def test_a_batch_without_numbers_leaves_no_gap() -> None:
    gaps = gaps_of(ready())
    batch = numbered(0, partition())
    batch.state = NO_PRODUCER_STATE
    gaps.left_by(batch, uncertain=True)
    gaps.left_by(batch, uncertain=False)
    assert not gaps.partitions


def test_a_lost_number_makes_a_gap_before_what_follows() -> None:
    gaps, one = gaps_of(ready()), partition()
    lost = numbered(3, one)
    assert not one.has_gap_before(numbered(4, one))
    gaps.lose_number(lost)
    assert lost.state is NO_PRODUCER_STATE
    assert [one.has_gap_before(numbered(place, one)) for place in (2, 3, 4)] == [False, False, True]
    assert not partition(TWO).has_gap_before(numbered(4, one))


def test_a_partition_that_has_nothing_left_goes_on_at_0_in_the_next_epoch() -> None:
    identity = ready(epoch=3)
    for place in (ONE, TWO):
        identity.stamp(place, 10)
    gaps = gaps_of(identity)
    gaps.note_missing(numbered(0, partition()))
    assert list(gaps.close(10.0)) == []
    assert not gaps.partitions
    assert identity.stamp(ONE, 5) == ProducerState(7, 4, 0)
    assert identity.stamp(TWO, 5) == ProducerState(7, 3, 10)


def test_a_doubt_that_is_dispelled_costs_no_epoch() -> None:
    identity = ready()
    identity.stamp(ONE, 10)
    gaps = gaps_of(identity)
    one = partition()
    gaps.left_by(numbered(0, one), uncertain=True)
    gaps.delivered(numbered(1, one))
    assert list(gaps.close(10.0)) == []
    assert identity.stamp(ONE, 5) == ProducerState(7, 0, 10)


@pytest.mark.parametrize(
    ("base_offset", "missing", "in_the_log"),
    [
        (15, None, (True, True)),
        (14, None, (True, False)),
        (11, None, (False, False)),
        (-1, None, (True, True)),
        (15, 0, (False, False)),
        (-1, 0, (False, False)),
        (15, 3, (True, True)),
    ],
    ids=[
        "room for both",
        "room for the first",
        "room for none",
        "a duplicate",
        "room, after a gap",
        "a duplicate, after a gap",
        "room, before a gap",
    ],
)
def test_what_a_delivered_batch_tells_of_those_set_aside(
    base_offset: int, missing: BatchOrder | None, in_the_log: tuple[bool, bool]
) -> None:
    gaps, one = gaps_of(ready()), partition()
    one.log_end = 10
    aside = [numbered(1, one), numbered(2, one)]
    for batch, count in zip(aside, (2, 3), strict=True):
        for _ in range(count):
            batch.builder.append(None, 0, None, b"")
    one.aside = list(aside)
    if missing is not None:
        gaps.note_missing(numbered(missing, one))
    told = gaps.told_by(numbered(3, one), base_offset)
    assert told == list(zip(aside, in_the_log, strict=True))
    assert not one.aside


@pytest.mark.parametrize("uncertain", [True, False])
def test_in_a_transaction_nothing_breaks_and_its_numbers_are_lost(
    uncertain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = SequenceNumbers(idempotent=True, transactional=True)
    manager = TransactionManager("till", identity, 60_000)
    lost: list[None] = []
    monkeypatch.setattr(manager, "numbers_lost", lambda: lost.append(None))
    gaps = gaps_of(identity, manager)
    gaps.left_by(numbered(0, partition()), uncertain=uncertain)
    assert not gaps.partitions
    assert lost == [None]
