cimport cython
from libc.stdint cimport int64_t


cdef class Column:
    cdef Py_buffer validity
    cdef Py_buffer data
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef Py_ssize_t width

    cdef int begin(self, validity, data, Py_ssize_t first, Py_ssize_t count, bint wide) except -1
    cdef Py_ssize_t place(self, Py_ssize_t row) except -2


@cython.final
cdef class BinaryColumn(Column):
    cdef Py_buffer offsets

    cdef Py_ssize_t read(self, Py_ssize_t row, const char** at) except -2


@cython.final
cdef class IntColumn(Column):
    cdef bint read(self, Py_ssize_t row, int64_t* number) except -1


@cython.final
cdef class HeadersColumn(Column):
    cdef Py_buffer offsets
    cdef BinaryColumn names
    cdef BinaryColumn values

    cdef int items(self, Py_ssize_t row, int64_t* begin, int64_t* end) except -1
    cdef bytes tail(self, Py_ssize_t row)
    cdef bytes encode(self, Py_ssize_t row)
