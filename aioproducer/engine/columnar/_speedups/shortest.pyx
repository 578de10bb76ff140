# cython: language_level=3, binding=False, wraparound=False, cdivision=True
"""Floats as Python's ``repr`` writes them, without a Python object.

Source: Raffaello Giulietti, "The Schubfach way to render doubles"; the names are those of the paper.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    static inline uint64_t aioproducer_high(uint64_t a, uint64_t b, uint64_t* low) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)a * b;
        *low = (uint64_t)product;
        return (uint64_t)(product >> 64);
    #else
        uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
        uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
        uint64_t middle = p10 + (p00 >> 32) + (uint32_t)p01;
        *low = middle << 32 | (uint32_t)p00;
        return p11 + (middle >> 32) + (p01 >> 32);
    #endif
    }
    """
    uint64_t high "aioproducer_high"(uint64_t a, uint64_t b, uint64_t* low) nogil

cdef enum:
    LEAST = -292
    POWERS = 617

cdef uint64_t g1[POWERS]
cdef uint64_t g0[POWERS]
"""The powers of ten from LEAST on: their highest 128 bits, rounded up."""


def fill_powers():
    cdef int number
    for number in range(POWERS):
        k = LEAST + number
        shift = ((k * 1741647) >> 19) - 127
        above = (10**k if k >= 0 else 1) << max(-shift, 0)
        below = (1 if k >= 0 else 10**-k) << max(shift, 0)
        power = -(-above // below)
        g1[number] = power >> 64
        g0[number] = power & 0xFFFF_FFFF_FFFF_FFFF


fill_powers()


cdef inline uint64_t rounded_to_odd(uint64_t upper, uint64_t lower, uint64_t cp) noexcept nogil:
    cdef uint64_t x0, y0
    cdef uint64_t x1 = high(lower, cp, &x0)
    cdef uint64_t y1 = high(upper, cp, &y0)
    y0 += x1
    if y0 < x1:
        y1 += 1
    return y1 | (y0 > 1)


cdef uint64_t shortest(uint64_t c, int q, bint closer_below, int* exponent) noexcept nogil:
    """The digits of ``c`` * 2**``q``, and the power of ten to multiply them by."""
    cdef uint64_t out = c & 1
    cdef uint64_t s, sp, vb, lower, upper, middle
    cdef bint is_inside, is_above_inside
    cdef int k = (q * 1262611 - (524031 if closer_below else 0)) >> 22
    cdef int h = q + ((-k * 1741647) >> 19) + 1
    cdef uint64_t upper_g = g1[-k - LEAST]
    cdef uint64_t lower_g = g0[-k - LEAST]
    lower = rounded_to_odd(upper_g, lower_g, (4 * c - 2 + closer_below) << h) + out
    vb = rounded_to_odd(upper_g, lower_g, (4 * c) << h)
    upper = rounded_to_odd(upper_g, lower_g, (4 * c + 2) << h) - out
    s = vb // 4
    if s >= 10:
        sp = s // 10
        is_inside = lower <= 40 * sp
        is_above_inside = 40 * sp + 40 <= upper
        if is_inside != is_above_inside:
            exponent[0] = k + 1
            return sp + is_above_inside
    exponent[0] = k
    is_inside = lower <= 4 * s
    is_above_inside = 4 * s + 4 <= upper
    if is_inside != is_above_inside:
        return s + is_above_inside
    middle = 4 * s + 2
    if vb > middle or vb == middle and s & 1:
        s += 1
    return s


cdef int write_double(char* to, double number) noexcept nogil:
    """A finite number; the bytes that were written, at most LONGEST_FLOAT."""
    cdef uint64_t bits, c
    cdef int exponent
    memcpy(&bits, &number, 8)
    c = bits & <uint64_t>0xFFFFFFFFFFFFF
    return written(to, bits >> 63, c, <int>(bits >> 52 & 0x7FF), 52, 1075)


cdef int write_float(char* to, float number) noexcept nogil:
    """As write_double(), with the digits that a float of 32 bits needs."""
    cdef uint32_t bits
    memcpy(&bits, &number, 4)
    return written(to, bits >> 31, bits & 0x7FFFFF, <int>(bits >> 23 & 0xFF), 23, 150)


cdef int written(
    char* to, bint negative, uint64_t fraction, int exponent, int fraction_bits, int bias
) noexcept nogil:
    cdef uint64_t c = fraction
    cdef uint64_t digits
    cdef int q = 1 - bias
    cdef int ten = 0
    if negative:
        to[0] = c"-"
        to += 1
    if exponent:
        c |= <uint64_t>1 << fraction_bits
        q = exponent - bias
    if c == 0:
        digits = 0
    elif 0 <= -q <= fraction_bits and not c & ((<uint64_t>1 << -q) - 1):
        digits = c >> -q
    else:
        digits = shortest(c, q, fraction == 0 and exponent > 1, &ten)
    return negative + as_repr(to, digits, ten)


cdef int as_repr(char* to, uint64_t digits, int ten) noexcept nogil:
    """``digits`` * 10**``ten`` in the form of Python's ``repr``."""
    cdef char text[20]
    cdef int count = 0
    cdef int place, point, number
    while digits and digits % 10 == 0:
        digits //= 10
        ten += 1
    place = 20
    while digits or place == 20:
        place -= 1
        text[place] = <char>(c"0" + digits % 10)
        digits //= 10
    count = 20 - place
    point = count + ten
    if count == 1 and text[place] == c"0":
        point = 1
    if -4 < point <= 16:
        if point <= 0:
            memset(to, c"0", 2 - point)
            to[1] = c"."
            memcpy(to + 2 - point, text + place, count)
            return 2 - point + count
        if count <= point:
            memcpy(to, text + place, count)
            memset(to + count, c"0", point - count)
            to[point] = c"."
            to[point + 1] = c"0"
            return point + 2
        memcpy(to, text + place, point)
        to[point] = c"."
        memcpy(to + point + 1, text + place + point, count - point)
        return count + 1
    to[0] = text[place]
    number = 1
    if count > 1:
        to[1] = c"."
        memcpy(to + 2, text + place + 1, count - 1)
        number = count + 1
    return number + write_exponent(to + number, point - 1)


cdef int write_exponent(char* to, int exponent) noexcept nogil:
    cdef int size = 4
    to[0] = c"e"
    to[1] = c"-" if exponent < 0 else c"+"
    if exponent < 0:
        exponent = -exponent
    if exponent >= 100:
        to[2] = <char>(c"0" + exponent // 100)
        to += 1
        size = 5
    to[2] = <char>(c"0" + exponent // 10 % 10)
    to[3] = <char>(c"0" + exponent % 10)
    return size
