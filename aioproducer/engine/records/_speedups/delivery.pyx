# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``delivery``."""

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint64_t

from aioproducer.engine.records._speedups.cpython_internals cimport new_tuple, track, untrack

from asyncio import Future

from aioproducer.model import RecordMetadata
from aioproducer.engine.records.bulk_tokens import BulkToken

cdef type BULK_TOKEN = BulkToken
cdef type METADATA = RecordMetadata
cdef type FUTURE = Future


@cython.final
cdef class RecordResults:
    """See ``delivery.RecordResults``."""

    def __init__(
        self,
        topic,
        partition,
        base_offset,
        list runs not None,
        int64_t append_time_ms,
        Py_ssize_t first,
        Py_ssize_t count,
    ):
        self.topic = topic
        self.partition = partition
        self.is_placed = base_offset >= 0
        self.base_offset = base_offset if self.is_placed else 0
        self.runs = runs
        self.append_time_ms = append_time_ms
        self.append_time = append_time_ms
        self.first = first
        self.count = count

    @classmethod
    def of(cls, metadata):
        """See ``delivery.RecordResults.of``."""
        topic, partition, offset, *described = metadata
        return RecordResults(topic, partition, offset, [(0, *described)], -1, 0, 1)

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            yield self.metadata(index)

    def __getitem__(self, index):
        cdef Py_ssize_t place
        if type(index) is slice:
            return [self[each] for each in range(*index.indices(self.count))]
        place = index
        return self.metadata(place + self.count if place < 0 else place)

    cpdef offset(self, Py_ssize_t index):
        if not self.is_placed:
            return -1
        return self.base_offset + <uint64_t>(self.first + index)

    cpdef timestamp_ms(self, Py_ssize_t index):
        self.seek(index)
        return self.time if self.append_time_ms < 0 else self.append_time

    cdef int seek(self, Py_ssize_t index) except -1:
        """Read the run of a record. No call is between: several threads may ask."""
        cdef Py_ssize_t at, low, high, middle
        cdef tuple run
        if not 0 <= index < self.count:
            raise IndexError("there are fewer records")
        at = self.first + index
        if self.begin <= at < self.end:
            return 0
        low, high = 0, len(self.runs)
        while high - low > 1:
            middle = (low + high) // 2
            if <Py_ssize_t>self.runs[middle][0] <= at:
                low = middle
            else:
                high = middle
        run = self.runs[low]
        self.begin = run[0]
        self.end = self.runs[high][0] if high < len(self.runs) else self.first + self.count
        self.time, self.key_size, self.value_size = run[1], run[2], run[3]
        return 0

    cdef metadata(self, Py_ssize_t index):
        self.seek(index)
        offset = self.offset(index)
        metadata = new_tuple(METADATA, 6)
        self.seek(index)  # a finalizer or another thread may have asked meanwhile
        put(metadata, 0, self.topic)
        put(metadata, 1, self.partition)
        put(metadata, 2, offset)
        put(metadata, 3, self.time if self.append_time_ms < 0 else self.append_time)
        put(metadata, 4, self.key_size)
        put(metadata, 5, self.value_size)
        untrack(metadata)
        return metadata


def fail_record(token, error):
    """See ``delivery.fail_record``."""
    if not token.done():
        if type(token) is FUTURE:
            track(token)
        token.set_exception(error)
        token.exception()


def deliver_records(
    list tokens not None,
    list runs not None,
    topic,
    partition,
    base_offset,
    int64_t append_time_ms,
    log_start_offset=-1,
):
    """See ``delivery.deliver_records``."""
    cdef Py_ssize_t first, index = 0
    cdef Py_ssize_t count = len(tokens)
    cdef bint is_together = False
    cdef RecordResults results = RecordResults(
        topic, partition, base_offset, runs, append_time_ms, 0, count
    )
    cdef RecordResults part
    kind = delivered = None
    while index < count:
        token, first = tokens[index], index
        index += 1
        if token is delivered:
            continue
        if type(token) is BULK_TOKEN:
            delivered = token
            if not token.done():
                token.deliver(topic, partition, results.offset(first))
            continue
        if type(token) is not kind:
            kind = type(token)
            is_together = hasattr(kind, "set_results")
        if is_together:
            while index < count and type(tokens[index]) is kind:
                index += 1
            part, several = results, tokens
            if index - first < count:
                several = tokens[first:index]
                part = RecordResults(
                    topic, partition, base_offset, runs, append_time_ms, first, index - first
                )
            kind.set_results(several, part, append_time_ms >= 0, log_start_offset)
        elif not token.done():
            token.set_result(results.metadata(first))


cdef inline void put(metadata, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(metadata, place, field)
