# cython: language_level=3, binding=False, wraparound=False
"""The compiled forms of ``bulk_tokens.fill_places`` and ``bulk_tokens.take_ahead``."""

from cpython.array cimport array
from libc.stdint cimport int64_t

from aioproducer.engine.records._speedups.arrays cimport check_type_code

from itertools import islice

from aioproducer.engine.records.bulk_tokens import _UNCHANGING


cdef frozenset UNCHANGING = _UNCHANGING


def take_ahead(iterator, Py_ssize_t most, list taken not None):
    """See ``bulk_tokens.take_ahead``."""
    for value in islice(iterator, most):
        taken.append(value)
        if type(value) is not bytes and type(value) not in UNCHANGING:
            return


def fill_places(
    array partitions not None, array offsets not None, token, int partition, int64_t base_offset
):
    """See ``bulk_tokens.fill_places``."""
    cdef Py_ssize_t first = token.first
    cdef Py_ssize_t count = token.count
    cdef array rows = token.rows
    cdef Py_ssize_t records = len(partitions)
    cdef Py_ssize_t there = records if rows is None else len(rows)
    cdef Py_ssize_t place, number
    cdef int64_t step = 1 if base_offset >= 0 else 0
    cdef int64_t offset = max(base_offset, -1)
    cdef int64_t* chosen = NULL
    if (
        records != len(offsets)
        or first < 0
        or count < 0
        or first > there
        or count > there - first
    ):
        raise IndexError("the bulk token's records are beyond the records that were counted")
    check_type_code(partitions, b"i")
    check_type_code(offsets, b"q")
    if rows is not None:
        check_type_code(rows, b"q")
        chosen = <int64_t*>rows.data.as_longlongs + first
        for number in range(count):
            if not 0 <= chosen[number] < records:
                raise IndexError("the bulk token's records are beyond the records that were counted")
    for number in range(count):
        place = first + number if chosen is NULL else chosen[number]
        partitions.data.as_ints[place] = partition
        offsets.data.as_longlongs[place] = offset
        offset += step
