"""The records while they are written: one block of memory that grows."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from aioproducer.engine.columnar._speedups.columns cimport Column, Text


cdef enum Problem:
    # ``problems.Problem``; a difference is an error at the import.
    NO_PROBLEM
    IS_NULL
    OUT_OF_RANGE
    INEXACT
    WRONG_SIZE
    NO_SYMBOL
    NOT_UTF8
    TOO_MANY_DIGITS
    IS_MALFORMED
    NOT_FINITE
    NO_MEMORY = 100


cdef struct Output:
    char* data
    Py_ssize_t size
    Py_ssize_t capacity
    Problem problem
    # Of the node with the problem.
    int number


cdef class Block:
    """Memory that the buffers of arrays point to."""

    cdef void* data
    cdef Py_ssize_t size


cdef object encoded(
    object layout,
    Py_ssize_t rows,
    bytes prefix,
    int (*write)(Output*, const Column*, Py_ssize_t) noexcept nogil,
)


cdef inline int reserve(Output* out, Py_ssize_t size) noexcept nogil:
    """Room for ``size`` more bytes, or -1."""
    cdef Py_ssize_t capacity
    cdef void* data
    if out.capacity - out.size >= size:
        return 0
    capacity = 2 * out.capacity + size
    data = realloc(out.data, capacity)
    if data is NULL:
        out.problem = NO_MEMORY
        return -1
    out.data = <char*>data
    out.capacity = capacity
    return 0


cdef inline int fail(Output* out, Problem problem, const Column* column) noexcept nogil:
    out.problem = problem
    out.number = column.number
    return -1


cdef inline void put(Output* out, const void* data, Py_ssize_t size) noexcept nogil:
    """There is room: ``reserve()`` came before."""
    memcpy(out.data + out.size, data, size)
    out.size += size


cdef inline void put_text(Output* out, const Text* text) noexcept nogil:
    if text.size == 1:
        out.data[out.size] = text.at[0]
        out.size += 1
    elif text.size > 0:
        put(out, text.at, text.size)


cdef inline void put_byte(Output* out, int value) noexcept nogil:
    out.data[out.size] = <char>value
    out.size += 1


cdef inline void put_varint(Output* out, uint64_t rest) noexcept nogil:
    cdef char* to = out.data + out.size
    while rest > 0x7F:
        to[0] = <char>(rest & 0x7F | 0x80)
        to += 1
        rest >>= 7
    to[0] = <char>rest
    out.size = to + 1 - out.data


cdef inline void put_uuid(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The 16 bytes of a row as text of 36 characters."""
    cdef const uint8_t* at = column.data + 16 * (column.offset + row)
    cdef const char* digits = "0123456789abcdef"
    cdef int place
    for place in range(16):
        if place == 4 or place == 6 or place == 8 or place == 10:
            put_byte(out, c"-")
        put_byte(out, digits[at[place] >> 4])
        put_byte(out, digits[at[place] & 15])


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ (~<uint64_t>0 if number < 0 else 0)


cdef inline int scaled(
    Output* out, const Column* column, int64_t number, int64_t* result
) noexcept nogil:
    """A number in the unit of the output."""
    if column.multiply != 1:
        if not -column.most_multiplied <= number <= column.most_multiplied:
            return fail(out, OUT_OF_RANGE, column)
        number *= column.multiply
    if column.divide != 1:
        if number % column.divide:
            return fail(out, INEXACT, column)
        number //= column.divide
    result[0] = number
    return 0


cdef inline bint is_utf8(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """Whether Python's decoder takes the bytes: no surrogates, no longer forms, up to U+10FFFF."""
    cdef const uint8_t* end = at + size
    cdef uint64_t eight
    cdef int more, number
    cdef uint8_t first, least, greatest
    while at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & <uint64_t>0x8080808080808080:
                at += 8
                continue
        first = at[0]
        at += 1
        if first < 0x80:
            continue
        least = 0x80
        greatest = 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                least = 0xA0
            elif first == 0xED:
                greatest = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                least = 0x90
            elif first == 0xF4:
                greatest = 0x8F
        else:
            return False
        if end - at < more or not least <= at[0] <= greatest:
            return False
        for number in range(1, more):
            if at[number] & 0xC0 != 0x80:
                return False
        at += more
    return True
