"""Floats as the shortest text that reads back as the same number."""

cdef enum:
    LONGEST_FLOAT = 32


cdef int write_double(char* to, double number) noexcept nogil
cdef int write_float(char* to, float number) noexcept nogil
