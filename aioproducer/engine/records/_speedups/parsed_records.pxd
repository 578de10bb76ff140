cimport cython
from cpython.array cimport array
from libc.stdint cimport int32_t, int64_t, uint64_t

from aioproducer.engine.records._speedups.field_reader cimport Record

# The sums over the records that are kept: a column of Arrow needs as many bytes.
cdef struct Sizes:
    Py_ssize_t keys
    Py_ssize_t values
    Py_ssize_t headers
    Py_ssize_t header_keys
    Py_ssize_t header_values
    bint null_keys
    bint null_values
    bint null_header_values
    bint unusual_keys  # a header has a key that is not plain ASCII


@cython.final
cdef class ParsedRecords:
    cdef Py_buffer data
    cdef const unsigned char* first  # the first record that is kept
    cdef const unsigned char* end
    cdef Py_ssize_t count
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint has_append_time
    cdef int64_t most_delta
    cdef int32_t partition_number
    cdef Sizes sizes
    cdef object topic
    cdef object partition
    cdef object timestamp_type
    cdef object leader_epoch
    cdef array index

    cdef bint parse(
        self, int64_t claimed, int64_t first_delta, int64_t end_delta, Record* record
    ) noexcept nogil
    cdef object malformed(self, Record* record, int64_t claimed)
    cdef array places(self)
    cdef const unsigned char* next_record(
        self, const unsigned char* at, Record* record
    ) except NULL

    cdef inline int64_t timestamp(self, const Record* record) noexcept:
        if self.has_append_time:
            return self.append_time
        return <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>record.timestamp_delta)

    cdef inline int64_t offset(self, const Record* record) noexcept:
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.offset_delta)


cdef object changed()
