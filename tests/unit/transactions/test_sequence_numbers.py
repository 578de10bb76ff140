from __future__ import annotations

import pytest
from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.records.builder import (
    NO_PRODUCER_STATE,
    ProducerState,
    frame_batch,
    next_sequence,
)
from aioproducer.engine.transactions.sequence_numbers import (
    MAX_EPOCH,
    ProducerIdState,
    SequenceNumbers,
)
from aioproducer.model import TopicPartition
from tests.support.tokens import Token

LAST = 2**31 - 1
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ready(producer_id: int = 7, epoch: int = 0) -> SequenceNumbers:
    identity = SequenceNumbers(idempotent=True)
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
    identity = SequenceNumbers(idempotent=False)
    assert identity.state is ProducerIdState.UNUSED
    assert identity.usable
    assert identity.stamp(ONE, 5) is NO_PRODUCER_STATE


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


@pytest.mark.parametrize(
    ("steps", "state", "usable"),
    [
        ((), "needed", False),
        (("requested",), "requested", False),
        (("requested", "refused"), "needed", False),
        (("requested", "refused", "requested", "assigned"), "ready", True),
        (("requested", "assigned"), "ready", True),
    ],
)
def test_states(steps: tuple[str, ...], state: str, usable: bool) -> None:
    identity = SequenceNumbers(idempotent=True)
    for step in steps:
        arguments = (7, 0) if step == "assigned" else ()
        getattr(identity, step)(*arguments)
    assert identity.state is ProducerIdState(state)
    assert identity.usable is usable


# --- after a batch that failed ------------------------------------------------------------------


def test_a_partition_goes_on_at_0_in_the_next_epoch_and_others_as_they_were() -> None:
    identity = ready(7, 3)
    identity.stamp(ONE, 10)
    identity.stamp(TWO, 10)
    identity.renew(ONE)
    assert identity.stamp(ONE, 5) == ProducerState(7, 4, 0)
    assert identity.stamp(ONE, 5) == ProducerState(7, 4, 5)
    assert identity.stamp(TWO, 5) == ProducerState(7, 3, 10)


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    identity = ready(7, MAX_EPOCH - 1)
    identity.stamp(ONE, 1)
    identity.stamp(TWO, 1)
    identity.renew(ONE)
    assert identity.stamp(ONE, 1) == ProducerState(7, MAX_EPOCH, 0)
    identity.renew(ONE)
    assert identity.state is ProducerIdState.NEEDED
    identity.requested()
    identity.assigned(8, 0)
    assert identity.stamp(ONE, 1) == ProducerState(8, 0, 0)
    assert identity.stamp(TWO, 1) == ProducerState(7, MAX_EPOCH - 1, 1)


def test_a_producer_id_that_is_on_its_way_serves_every_partition_that_needs_one() -> None:
    identity = ready(7, MAX_EPOCH)
    for partition in (ONE, TWO):
        identity.stamp(partition, 1)
    identity.renew(ONE)
    identity.requested()
    identity.renew(TWO)
    assert identity.state is ProducerIdState.REQUESTED
    identity.assigned(8, 0)
    assert identity.stamp(ONE, 1) == identity.stamp(TWO, 1) == ProducerState(8, 0, 0)


# --- in transactions ---------------------------------------------------------------------------


def test_a_transactional_identity_is_the_coordinator_s_to_give() -> None:
    identity = SequenceNumbers(idempotent=True, transactional=True)
    assert identity.state is ProducerIdState.REQUESTED, "nobody else is asked"
    assert not identity.usable
    identity.begin_epoch(7, 3)
    assert identity.usable
    assert identity.stamp(ONE, 2) == ProducerState(7, 3, 0, transactional=True)


def test_in_a_new_epoch_every_partition_begins_at_0() -> None:
    identity = SequenceNumbers(idempotent=True, transactional=True)
    identity.begin_epoch(7, 3)
    assert identity.fresh
    for partition in (ONE, TWO):
        identity.stamp(partition, 5)
    assert not identity.fresh
    identity.begin_epoch(7, 4)
    assert identity.fresh
    for partition in (ONE, TWO):
        assert identity.stamp(partition, 1) == ProducerState(7, 4, 0, transactional=True)


@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_says_whether_it_is_part_of_a_transaction(transactional: bool) -> None:
    identity = SequenceNumbers(idempotent=True, transactional=transactional)
    identity.begin_epoch(7, 3)
    batch = ProducerBatch(ONE, bytearray(1000), 1000, 0.0, 1.0)
    batch.builder.append(Token(), 1, None, b"value", ())
    batch.state = identity.stamp(ONE, batch.count)
    written = MemoryRecords(bytes(frame_batch(batch.builder, batch.state, None, None))).next_batch()
    assert written.is_transactional is transactional
    assert (written.producer_id, written.producer_epoch) == (7, 3)
    assert written.validate_crc()
