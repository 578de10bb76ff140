cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class RecordsBuilder:
    cdef public bytearray buffer
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t count
    cdef public list tokens
    cdef public object owner
    cdef readonly int64_t base_timestamp_ms
    cdef int64_t latest_timestamp_ms
    cdef readonly Py_ssize_t max_record_size
    # The first run and the first mark are most often the only ones, so they are no objects.
    cdef Py_ssize_t first_key_size
    cdef Py_ssize_t first_value_size
    cdef list later_runs
    cdef Py_ssize_t first_mark
    cdef int64_t first_mark_ns
    cdef list later_marks
    cdef int64_t last_mark_ns
    cdef int64_t last_timestamp_ms
    cdef Py_ssize_t last_key_size
    cdef Py_ssize_t last_value_size

    cdef Py_ssize_t append_checked(self, token, timestamp_ms, key, value, headers) except -1
    cdef Py_ssize_t write(self, token, int64_t timestamp, key, value, bytes tail) except -1
    cpdef int mark(self, int64_t sent_ns) except -1
    cdef Py_ssize_t write_fields(
        self,
        token,
        int64_t timestamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
        bytes tail,
        bint described,
    ) except -1
    cdef Py_ssize_t keep(
        self,
        token,
        int64_t timestamp,
        Py_ssize_t key_size,
        Py_ssize_t value_size,
        Py_ssize_t size,
        bint described,
    ) except -1
