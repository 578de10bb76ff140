"""Columns of records as Arrow lays them out in memory, and their rows by partition.

A column consists of buffers: a bitmap of the rows that are not null, if there are nulls; offsets of
4 or 8 bytes, and the bytes between them; or numbers of 4 or 8 bytes. No content of the buffers
makes this module read outside of them. Source: Arrow's "Columnar Format".

This module is the reference; ``_speedups.pyx`` is its compiled form.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from aioproducer.engine.partitioning import STICKY, route
from aioproducer.errors import SerializationError
from aioproducer.model import Header


class _Column:
    """``count`` rows from row ``first`` of the buffers on."""

    __slots__ = ("_count", "_first", "_validity")

    def __init__(self, validity: Any, first: int, count: int) -> None:
        self._validity = None if validity is None else memoryview(validity).cast("B")
        self._first = first
        self._count = count
        if first < 0 or count < 0:
            raise SerializationError("a column begins and ends within its buffers")
        if self._validity is not None and count and len(self._validity) * 8 < first + count:
            raise SerializationError("a column's bitmap of nulls is too short")

    def __len__(self) -> int:
        return self._count

    def _place(self, row: int) -> int:
        """The place of the row in the buffers; -1 if it is null."""
        if not 0 <= row < self._count:
            raise IndexError(f"the column has {self._count} rows, and no row {row}")
        place = self._first + row
        if self._validity is not None and not self._validity[place >> 3] >> (place & 7) & 1:
            return -1
        return place


def _numbers(buffer: Any, *, wide: bool) -> memoryview[int]:
    whole = memoryview(b"" if buffer is None else buffer).cast("B")
    if wide:
        return whole[: len(whole) // 8 * 8].cast("q")
    return whole[: len(whole) // 4 * 4].cast("i")


class BinaryColumn(_Column):
    """Bytes or None in each row; ``wide``: the offsets have 8 bytes instead of 4."""

    __slots__ = ("_data", "_offsets")

    def __init__(
        self, validity: Any, offsets: Any, data: Any, first: int, count: int, *, wide: bool
    ) -> None:
        super().__init__(validity, first, count)
        self._offsets = _numbers(offsets, wide=wide)
        self._data = memoryview(b"" if data is None else data).cast("B")
        if count and len(self._offsets) < first + count + 1:
            raise SerializationError("a column has fewer offsets than rows")

    def __getitem__(self, row: int) -> bytes | None:
        place = self._place(row)
        if place < 0:
            return None
        begin, end = self._offsets[place], self._offsets[place + 1]
        if not 0 <= begin <= end <= len(self._data):
            raise SerializationError("a column's offsets do not fit its data")
        return bytes(self._data[begin:end])


class IntColumn(_Column):
    """An int or None in each row; ``wide``: of 8 bytes instead of 4."""

    __slots__ = ("_data",)

    def __init__(self, validity: Any, data: Any, first: int, count: int, *, wide: bool) -> None:
        super().__init__(validity, first, count)
        self._data = _numbers(data, wide=wide)
        if count and len(self._data) < first + count:
            raise SerializationError("a column has fewer numbers than rows")

    def __getitem__(self, row: int) -> int | None:
        place = self._place(row)
        return None if place < 0 else self._data[place]


class HeadersColumn(_Column):
    """The headers of each row, as pairs of a name and a value, or None.

    A row has the pairs from its offset to the next one. ``wide``: the offsets have 8 bytes instead
    of 4. A name may be null, which no record can hold.
    """

    __slots__ = ("_names", "_offsets", "_values")

    def __init__(
        self,
        validity: Any,
        offsets: Any,
        names: BinaryColumn,
        values: BinaryColumn,
        first: int,
        count: int,
        *,
        wide: bool,
    ) -> None:
        super().__init__(validity, first, count)
        self._offsets = _numbers(offsets, wide=wide)
        self._names = names
        self._values = values
        if count and len(self._offsets) < first + count + 1:
            raise SerializationError("a column has fewer offsets than rows")

    def __getitem__(self, row: int) -> list[Header] | None:
        place = self._place(row)
        if place < 0:
            return None
        begin, end = self._offsets[place], self._offsets[place + 1]
        if not 0 <= begin <= end <= min(len(self._names), len(self._values)):
            raise SerializationError("a column's offsets do not fit its data")
        try:
            pairs = [(_text(self._names[item]), self._values[item]) for item in range(begin, end)]
        except UnicodeDecodeError as error:
            raise SerializationError(f"the headers of row {row} are no valid text") from error
        return pairs or None


def _text(name: bytes | None) -> Any:
    return None if name is None else name.decode()


class Columns(NamedTuple):
    """Records by their fields. Columns other than ``values`` may be missing."""

    values: BinaryColumn
    keys: BinaryColumn | None = None
    partitions: IntColumn | None = None
    timestamps: IntColumn | None = None
    """Milliseconds since the epoch."""
    headers: HeadersColumn | None = None


def partitions_of_keys(keys: BinaryColumn, count: int) -> array[int]:
    """The partition among ``count`` for each key; ``STICKY`` for a row without a key."""
    if count < 1:
        raise ValueError("the number of partitions must be at least 1")
    return array(
        "i",
        (route(keys[row], None, count, ignore_keys=False) for row in range(len(keys))),
    )


def rows_by_partition(
    columns: Columns, base: int, start: int, stop: int, count: int, *, ignore_keys: bool
) -> tuple[array[int], list[tuple[int, int, int]]]:
    """The rows of one topic's ``count`` partitions, each partition's together and in order.

    A row has the partition that it names, else the partition of its key. The rows begin with
    ``start`` and end with ``stop - 1`` at the latest. They end earlier where keyless rows begin or
    end: a keyless row may get into any partition, and each partition keeps the order. The call
    returns the numbers of the rows plus ``base``. It also returns for each partition among them its
    number (or the special value of :func:`route`), the place of its first row, and the place after
    its last.
    """
    if count < 1 or start > stop:
        raise ValueError("the number of partitions must be at least 1, and stop not before start")
    partitions, keys = columns.partitions, None if ignore_keys else columns.keys
    found: dict[int, list[int]] = {}
    for row in range(start, stop):
        named = None if partitions is None else partitions[row]
        key = None if named is not None or keys is None else keys[row]
        partition = route(key, named, count, ignore_keys=ignore_keys)
        if found and (partition == STICKY) != (STICKY in found):
            break
        found.setdefault(partition, []).append(base + row)
    rows = array("q")
    groups = []
    for partition in sorted(found):
        groups.append((partition, len(rows), len(rows) + len(found[partition])))
        rows.extend(found[partition])
    return rows, groups
