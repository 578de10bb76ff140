"""Records without bytes: their queue by topic, their size, and the end of their wait."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

from aioproducer.engine.accumulator import PendingRecord, SerializedRecord, Unserialized
from aioproducer.engine.accumulator.pending_records import TopicQueues
from aioproducer.errors import NotPreparedError, RecordTooLargeError, SerializationError
from tests.support.tokens import Token
from tests.unit.accumulator.world import BLOCK, AccumulatorWorld

NOT_PREPARED = NotPreparedError("no schema yet")


class Line:
    """Unserialized records of the topic ``t`` in a world."""

    def __init__(self, world: AccumulatorWorld) -> None:
        self.world = world

    def put(self, value: bytes | Exception, size: int = 600) -> PendingRecord:
        world, token = self.world, Token()
        record = SerializedRecord("t", None, 0, None, None, (), token)
        return world.accumulator.enqueue(
            record,
            world.now,
            world.now + BLOCK,
            unserialized=Unserialized(size, self._maker(value, token)),
        )

    def _maker(self, value: bytes | Exception, token: Token) -> Callable[[], SerializedRecord]:
        def make() -> SerializedRecord:
            if isinstance(value, Exception):
                raise value
            return SerializedRecord("t", None, 0, None, value, (), token)

        return make

    def serialize(self, most: int = 100) -> None:
        self.world.accumulator.serialize_pending("t", most, self.world.now)


def test_they_count_for_their_estimate_and_then_for_their_bytes() -> None:
    world = AccumulatorWorld()
    line = Line(world)
    record = line.put(b"x" * 10, size=600)
    assert world.records.bytes == 600
    wakes = world.wakes
    line.serialize()
    assert world.records.bytes == record.size < 600
    assert world.wakes > wakes, "callers that wait may have room"
    assert world.accumulator.pending.awaiting("t") == [record], "its topic is not known yet"
    world.learn(1, topic="t")
    assert record.settled
    assert world.records.bytes == 0


def test_they_wait_although_their_topic_is_known() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    records = [line.put(b"1"), line.put(b"2")]
    world.learn(1, topic="t")
    assert not any(record.settled for record in records)
    line.serialize()
    assert all(record.settled for record in records)
    (batch,) = world.drain(1)
    assert batch.count == 2


def test_the_first_one_that_is_not_prepared_stops_those_behind_it() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    first, second, third = line.put(b"1"), line.put(NOT_PREPARED), line.put(b"3")
    line.serialize()
    assert (first.settled, second.settled, third.settled) == (True, False, False)
    assert world.accumulator.pending.first_unserialized("t") is second
    world.accumulator.pending.fail([second], SerializationError("expired"))
    line.serialize()
    assert third.settled


def test_one_that_can_not_be_serialized_fails_alone() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    wrong = line.put(SerializationError("no such field"))
    large, right = line.put(b"x" * 2_000_000), line.put(b"3")
    line.serialize()
    assert isinstance(wrong.record.token.exception(), SerializationError)
    assert isinstance(large.record.token.exception(), RecordTooLargeError)
    assert right.settled
    assert world.records.bytes == 0
    assert [topic for topic, _ in world.accumulator.pending.take_refused()] == ["t", "t"]


def test_a_slice_takes_the_oldest() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    records = [line.put(b"%d" % number) for number in range(5)]
    line.serialize(2)
    assert [record.settled for record in records] == [True, True, False, False, False]


def test_a_withdrawn_record_leaves_the_queue_at_once() -> None:
    world = AccumulatorWorld()
    record = Line(world).put(NOT_PREPARED)
    world.accumulator.pending.withdraw(record)
    assert not world.accumulator.pending.has_unserialized("t")
    assert world.records.bytes == 0


def test_a_topic_stays_known_while_records_wait_for_their_serializer() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    record = Line(world).put(NOT_PREPARED)
    assert not world.accumulator.forget_topic("t", world.now)
    world.accumulator.pending.withdraw(record)
    assert world.accumulator.forget_topic("t", world.now)


def test_the_first_of_many_records_is_found_at_once() -> None:
    world = AccumulatorWorld()
    queues, count = TopicQueues(), 50_000
    record = SerializedRecord("t", None, 0, None, None, (), Token())
    records = [PendingRecord(record, 600, world.now, world.now) for _ in range(count)]
    for each in records:
        queues.add(each)
    began = process_time()
    for each in records:
        assert queues.first("t") is each
        queues.remove(each)
    assert process_time() - began < 2, "in a plain dict it takes ten seconds"
    assert not queues.topics
