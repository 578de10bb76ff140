"""The check of an array before C code reads its numbers."""

from cpython.array cimport array


cdef inline int check_type_code(array numbers, char expected) except -1:
    if numbers.ob_descr.typecode != expected:
        raise TypeError(f"an array of type {chr(expected)!r} is needed, not {numbers.typecode!r}")
    return 0
