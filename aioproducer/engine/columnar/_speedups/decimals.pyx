# cython: language_level=3, binding=False, wraparound=False, cdivision=True
"""Decimals of Arrow as text."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from aioproducer.engine.columnar._speedups.output cimport put, put_byte, reserve


cdef int write_decimal(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The number, with ``width`` digits behind the point."""
    cdef char text[81]
    cdef Py_ssize_t scale = column.width
    cdef int place = decimal_digits(
        column.data + column.item_size * (column.offset + row), <int>column.item_size, text
    )
    cdef int count
    if text[0] == c"-":
        put_byte(out, c"-")
    count = 81 - place
    if reserve(out, 100 + (scale if scale > 0 else -scale)) < 0:
        return -1
    if scale <= 0:
        put(out, &text[place], count)
        if text[place] != c"0":
            memset(out.data + out.size, c"0", -scale)
            out.size -= scale
        return 0
    if count <= scale:
        put(out, <const char*>"0.", 2)
        memset(out.data + out.size, c"0", scale - count)
        out.size += scale - count
        put(out, &text[place], count)
        return 0
    put(out, &text[place], count - scale)
    put_byte(out, c".")
    put(out, &text[81 - scale], scale)
    return 0


cdef int decimal_digits(const uint8_t* at, int size, char* text) noexcept nogil:
    """The first place of the digits in ``text``, whose first byte is ``-`` for a negative number.

    Decimals have 128 or 256 bits.
    """
    cdef uint32_t limbs[8]
    cdef int count = size // 4
    cdef int place = 81
    cdef int limb, digit
    cdef uint64_t rest
    memcpy(limbs, at, size)
    text[0] = c" "
    if at[size - 1] & 0x80:
        text[0] = c"-"
        rest = 1
        for limb in range(count):
            rest += ~limbs[limb]
            limbs[limb] = <uint32_t>rest
            rest >>= 32
    while count and not limbs[count - 1]:
        count -= 1
    while count:
        rest = 0
        limb = count
        while limb:
            limb -= 1
            rest = rest << 32 | limbs[limb]
            limbs[limb] = <uint32_t>(rest // 1_000_000_000)
            rest %= 1_000_000_000
        while count and not limbs[count - 1]:
            count -= 1
        for digit in range(9):
            if not rest and not count:
                break
            place -= 1
            text[place] = <char>(c"0" + rest % 10)
            rest //= 10
    if place == 81:
        place = 80
        text[80] = c"0"
    return place
