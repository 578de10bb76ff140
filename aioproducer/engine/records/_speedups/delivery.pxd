cimport cython
from libc.stdint cimport int64_t, uint64_t


@cython.final
cdef class RecordResults:
    cdef readonly object topic
    cdef readonly object partition
    cdef bint is_placed
    cdef uint64_t base_offset  # the offsets of a batch may go beyond int64_t
    cdef list runs
    cdef int64_t append_time_ms
    cdef object append_time
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    # The run of the record that was asked for last: its places in the batch, and its fields.
    cdef Py_ssize_t begin
    cdef Py_ssize_t end
    cdef object time
    cdef object key_size
    cdef object value_size

    cpdef offset(self, Py_ssize_t index)
    cpdef timestamp_ms(self, Py_ssize_t index)
    cdef int seek(self, Py_ssize_t index) except -1
    cdef metadata(self, Py_ssize_t index)
