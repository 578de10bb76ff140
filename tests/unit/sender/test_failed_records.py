"""Failed records between the sender and the hook: bytes until they are taken, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.engine.accumulator import PendingRecord, ProducerBatch, SerializedRecord
from aioproducer.engine.records.compression import compression
from aioproducer.engine.sender.delivery_reports import FailedRecordQueue
from aioproducer.errors import DeliveryTimeoutError, InvalidRecordError, ProducerError
from aioproducer.model import Header, TopicPartition


class Token:
    """A future that nobody has cancelled."""

    def done(self) -> bool:
        return False

    def set_result(self, _metadata: object) -> None: ...

    def set_exception(self, _error: BaseException) -> None: ...

    def exception(self) -> BaseException | None:
        return None


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def batch(
    *values: bytes | None, key: bytes | None = b"k", headers: tuple[Header, ...] = ()
) -> ProducerBatch:
    made = ProducerBatch(TopicPartition("orders", 2), bytearray(100_000), 100_000, 0.0, 1.0)
    for place, value in enumerate(values):
        record = SerializedRecord("orders", 2, 1_000 + place, key, value, headers, Token())
        assert made.append(record)
    return made


def pending(value: bytes | bytearray, size: int = 100) -> PendingRecord:
    data: Any = value
    record = SerializedRecord("orders", None, 7, None, data, [("h", None)], Token())
    return PendingRecord(record, size, 0.0, 1.0)


FAILED = DeliveryTimeoutError("late")
FAILED.may_have_been_written = True


def test_a_batch_is_read_from_its_bytes_after_its_memory_is_gone() -> None:
    queue, failed = FailedRecordQueue(1_000, wakes := Wakes()), batch(b"a", None, b"c")
    failed.compress(compression("gzip", level=None))
    queue.add_batch(failed, FAILED, {})
    buffer = failed.release()
    assert buffer is not None
    buffer[:] = bytes(len(buffer))
    assert (len(queue), wakes.count) == (3, 1)
    first, second, third = queue.take(10, 10_000)
    assert first[:6] == ("orders", 2, b"k", b"a", (), 1_000)
    assert (second.value, third.value, third.timestamp_ms) == (None, b"c", 1_002)
    assert first.error is FAILED
    assert first.may_have_been_written
    assert (len(queue), queue.take(10, 10_000)) == (0, [])


def test_records_with_errors_of_their_own() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    own = InvalidRecordError("no key")
    queue.add_batch(batch(b"a", b"b"), FAILED, {1: own})
    first, second = queue.take(10, 10_000)
    assert (first.error, second.error) == (FAILED, own)
    assert not second.may_have_been_written


def test_headers_and_pending_records() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    queue.add_batch(batch(b"a", headers=(("h", b"1"), ("h", None))), FAILED, {})
    value = bytearray(b"mine")
    queue.add_pending(FAILED, [pending(value)])
    value[:] = b"else"
    first, second = queue.take(10, 10_000)
    assert first.headers == (("h", b"1"), ("h", None))
    assert second[:6] == ("orders", None, None, b"mine", (("h", None),), 7)


def test_a_record_without_bytes_is_left_out() -> None:
    queue = FailedRecordQueue(1_000, Wakes())
    unserialized = pending(b"")
    unserialized.serialize = lambda: unserialized.record
    queue.add_pending(FAILED, [unserialized])
    assert len(queue) == 0


@pytest.mark.parametrize(("most_records", "most_bytes"), [(2, 10_000), (100, 2)])
def test_records_are_taken_in_order_and_in_bounded_steps(
    most_records: int, most_bytes: int
) -> None:
    queue = FailedRecordQueue(10_000, Wakes())
    values = [b"%d" % number for number in range(9)]
    queue.add_batch(batch(*values[:4], key=None), FAILED, {})
    queue.add_batch(batch(*values[4:8], key=None), FAILED, {})
    queue.add_pending(FAILED, [pending(values[8])])
    taken: list[bytes | None] = []
    while records := queue.take(most_records, most_bytes):
        assert len(records) <= 2
        taken += [record.value for record in records]
    assert taken == values


def test_a_large_record_is_taken_alone() -> None:
    queue = FailedRecordQueue(10_000, Wakes())
    queue.add_batch(batch(bytes(5_000), b"small"), FAILED, {})
    assert [len(record.value or b"") for record in queue.take(10, 100)] == [5_000]


def test_records_beyond_the_capacity_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FailedRecordQueue(250, wakes := Wakes())
    queue.add_pending(FAILED, [pending(b"%d" % number) for number in range(4)])
    assert (queue.added, wakes.count) == (1, 1)
    assert "on_failed is not given 1 failed record of topic orders" in caplog.text
    assert [record.value for record in queue.take(10, 100)] == [b"0"]
    queue.add_batch(batch(bytes(5_000)), FAILED, {})
    assert len(queue) == 1, "a lot that comes first is kept, whatever its size"


def test_errors_that_the_hook_is_not_for() -> None:
    def concerns(error: ProducerError) -> bool:
        return error is not FAILED

    queue = FailedRecordQueue(250, wakes := Wakes(), concerns)
    queue.add_pending(FAILED, [pending(b"1")])
    queue.add_batch(batch(b"1"), FAILED, {})
    assert (len(queue), wakes.count) == (0, 0)
