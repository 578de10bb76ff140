"""Batches of partitions are grouped into chunks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aioproducer.spark.arrow_chunks import grouped
from aioproducer.spark.packed_batches import packer


def batch(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def chunks(*batches: pa.RecordBatch | None, size: int) -> list[tuple[list[bytes], bool]]:
    return [
        ([] if rows is None else rows.column("value").to_pylist(), last)
        for rows, last in grouped(batches, size)
    ]


def test_small_batches_come_together() -> None:
    given = batch(b"1", b"2"), batch(b"3"), None, batch(b"4"), None
    assert chunks(*given, size=1_000) == [([b"1", b"2", b"3"], True), ([b"4"], True)]


def test_a_chunk_has_about_its_size() -> None:
    rows = [b"%03d" % n for n in range(100)]
    found = chunks(batch(*rows[:70]), batch(*rows[70:]), None, size=100)
    assert [row for its, _ in found for row in its] == rows
    assert [last for _, last in found] == [False] * (len(found) - 1) + [True]
    # A row takes three bytes and an offset of four.
    assert max(len(its) for its, _ in found) <= 100 / 7 + 1
    assert len(found) <= 2 + 100 * 7 / 100 * 1.5


def test_a_large_row_is_a_chunk() -> None:
    assert chunks(batch(b"a" * 500, b"b" * 500), None, size=100) == [
        ([b"a" * 500], False),
        ([b"b" * 500], True),
    ]


def test_every_partition_ends_with_a_chunk() -> None:
    assert chunks(None, batch(), None, batch(b"1"), None, size=10)[0] == ([], True)
    assert [last for _, last in chunks(None, batch(), None, size=10)] == [True, True]


@pytest.mark.parametrize("size", [20, 10_000])
def test_packed_batches_have_the_rows_and_an_end(size: int) -> None:
    rows = [b"%03d" % n for n in range(100)]
    packed = [
        data
        for one in packer(size)([batch(*rows[:60]), batch(*rows[60:])])
        for data in one.column("rows").to_pylist()
    ]
    assert packed[-1] is None
    assert len(packed) > (2 if size > 1_000 else 20)
    unpacked = [pa.ipc.open_stream(data).read_all().column("value") for data in packed[:-1]]
    assert [row for column in unpacked for row in column.to_pylist()] == rows
