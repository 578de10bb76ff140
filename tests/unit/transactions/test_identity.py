from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.model import TopicPartition
from aioproducer.records.record_batch import NO_PRODUCER_STATE, ProducerState, next_sequence
from aioproducer.transactions.identity import IdentityState, ProducerIdentity

LAST = 2**31 - 1
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ready(producer_id: int = 7, epoch: int = 0) -> ProducerIdentity:
    identity = ProducerIdentity(idempotent=True)
    identity.requested()
    identity.assigned(producer_id, epoch)
    return identity


@pytest.mark.parametrize(
    ("sequence", "count", "following"),
    [
        (0, 1, 1),
        (0, 500, 500),
        (LAST, 1, 0),
        (LAST, 2, 1),
        (LAST - 1, 1, LAST),
        (LAST - 1, 2, 0),
        (LAST - 9, 10, 0),
        (LAST - 9, 11, 1),
        (0, LAST, LAST),
        (LAST, LAST, LAST - 1),
    ],
)
def test_sequences_wrap_as_in_kafka(sequence: int, count: int, following: int) -> None:
    assert next_sequence(sequence, count) == following


@given(st.integers(0, LAST), st.integers(1, LAST))
def test_a_sequence_is_always_one_that_a_broker_takes(sequence: int, count: int) -> None:
    # Kafka's DefaultRecordBatch.incrementSequence, word for word
    expected = count - (LAST - sequence) - 1 if sequence > LAST - count else sequence + count
    assert next_sequence(sequence, count) == expected
    assert 0 <= expected <= LAST


def test_a_producer_that_is_not_idempotent_stamps_nothing_for_ever() -> None:
    identity = ProducerIdentity(idempotent=False)
    assert identity.state is IdentityState.UNUSED
    assert identity.usable
    assert identity.stamp(ONE, 5) is NO_PRODUCER_STATE
    identity.lost()
    assert identity.state is IdentityState.UNUSED
    assert identity.usable


def test_each_partition_counts_by_itself() -> None:
    identity = ready(7, 3)
    assert identity.stamp(ONE, 10) == ProducerState(7, 3, 0)
    assert identity.stamp(ONE, 5) == ProducerState(7, 3, 10)
    assert identity.stamp(TWO, 1) == ProducerState(7, 3, 0)
    assert identity.stamp(ONE, 1) == ProducerState(7, 3, 15)
    assert identity.stamp(TWO, 1) == ProducerState(7, 3, 1)
    assert identity.stamp(TopicPartition("other", 0), 1) == ProducerState(7, 3, 0)


def test_a_partition_wraps() -> None:
    identity = ready()
    identity.stamp(ONE, LAST)
    assert identity.stamp(ONE, 1).base_sequence == LAST
    assert identity.stamp(ONE, 1).base_sequence == 0
    assert identity.stamp(TWO, 1).base_sequence == 0


def test_a_new_identity_counts_from_zero() -> None:
    identity = ready(7, 3)
    identity.stamp(ONE, 10)
    identity.lost()
    identity.retired()
    identity.requested()
    identity.assigned(8, 0)
    assert identity.stamp(ONE, 1) == ProducerState(8, 0, 0)


@pytest.mark.parametrize(
    ("steps", "state", "usable"),
    [
        ((), "needed", False),
        (("requested",), "requested", False),
        (("requested", "refused"), "needed", False),
        (("requested", "refused", "requested", "assigned"), "ready", True),
        (("requested", "assigned"), "ready", True),
        (("requested", "assigned", "lost"), "exhausted", False),
        (("requested", "assigned", "lost", "lost"), "exhausted", False),
        (("requested", "assigned", "lost", "retired"), "needed", False),
        (("requested", "assigned", "lost", "retired", "lost"), "needed", False),
        (("requested", "assigned", "lost", "retired", "requested", "lost"), "requested", False),
        (("lost",), "needed", False),
        (("requested", "lost"), "requested", False),
    ],
)
def test_states(steps: tuple[str, ...], state: str, usable: bool) -> None:
    identity = ProducerIdentity(idempotent=True)
    for step in steps:
        arguments = (7, 0) if step == "assigned" else ()
        getattr(identity, step)(*arguments)
    assert identity.state is IdentityState(state)
    assert identity.usable is usable
