# cython: language_level=3, binding=False, wraparound=False, cdivision=True
"""The compiled form of ``json_rows``: it makes no object for a row, and holds no lock."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from aioproducer.engine.columnar._speedups.columns cimport (
    ARRAY,
    BINARY,
    BOOLEAN,
    CONSTANT,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    READ_UINT64,
    RECORD,
    TEXT,
    TIME,
    TIMESTAMP,
    UUID,
    Column,
    boolean,
    double_number,
    ends,
    float_number,
    integer,
    is_null,
)
from aioproducer.engine.columnar._speedups.decimals cimport write_decimal
from aioproducer.engine.columnar._speedups.output cimport (
    IS_MALFORMED,
    IS_NULL,
    NOT_FINITE,
    NOT_UTF8,
    OUT_OF_RANGE,
    Output,
    encoded,
    fail,
    is_utf8,
    put,
    put_byte,
    put_text,
    put_uuid,
    reserve,
    scaled,
)
from aioproducer.engine.columnar._speedups.shortest cimport write_double, write_float

cdef int64_t SECONDS_OF_A_DAY = 86_400
cdef int64_t FIRST_DAY = -719_162
"""1 January of the year 1."""
cdef int64_t LAST_DAY = 2_932_896
"""31 December of the year 9999."""
cdef const char* HEX = "0123456789abcdef"
cdef const char* BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef char escapes[256]
"""0: the byte stands for itself. ``u``: it has no short form."""


def fill_escapes():
    memset(escapes, 0, 256)
    memset(escapes, c"u", 32)
    for byte, letter in zip(b'\n\r\t\f\b"\\', b'nrtfb"\\', strict=True):
        escapes[byte] = letter


fill_escapes()


def json_rows(layout, Py_ssize_t rows, bytes prefix not None):
    """See ``json_rows.json_rows``."""
    return encoded(layout, rows, prefix, write)


cdef int write(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The value of a row, -1 if it has a problem."""
    cdef double number
    if reserve(out, column.most) < 0:
        return -1
    if column.write != CONSTANT and is_null(column, row):
        if column.null.size < 0:
            return fail(out, IS_NULL, column)
        put_text(out, &column.null)
        return 0
    put_text(out, &column.before)
    if column.write == INTEGER:
        if column.read == READ_UINT64:
            put_unsigned(out, <uint64_t>integer(column, row))
        else:
            put_integer(out, integer(column, row))
    elif column.write == DOUBLE or column.write == FLOAT:
        number = double_number(column, row)
        if not isfinite(number):
            return fail(out, NOT_FINITE, column)
        if column.write == DOUBLE:
            out.size += write_double(out.data + out.size, number)
        else:
            out.size += write_float(out.data + out.size, float_number(column, row))
    elif column.write == TEXT:
        return write_text(out, column, row)
    elif column.write == TIMESTAMP or column.write == TIME:
        return write_time(out, column, row)
    elif column.write == RECORD:
        return write_object(out, column, row)
    elif column.write == BOOLEAN:
        if boolean(column, row):
            put(out, <const char*>"true", 4)
        else:
            put(out, <const char*>"false", 5)
    elif column.write == DECIMAL:
        return write_decimal(out, column, row)
    elif column.write == DATE:
        return write_date(out, column, row)
    elif column.write == BINARY:
        return write_base64(out, column, row)
    elif column.write == UUID:
        put_byte(out, c'"')
        put_uuid(out, column, row)
        put_byte(out, c'"')
    elif column.write != CONSTANT:
        return write_items(out, column, row)
    return 0


cdef int write_object(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """A struct. A null member has written nothing, and gets no comma."""
    cdef Py_ssize_t before
    cdef int child
    put_byte(out, c"{")
    for child in range(column.child_count):
        before = out.size
        if write(out, &column.children[child], row) < 0 or reserve(out, 1) < 0:
            return -1
        if out.size > before:
            put_byte(out, c",")
    return close(out, c"}")


cdef int write_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The items of an array, or the keys and values of a map."""
    cdef Py_ssize_t start, stop, place
    cdef bint is_array = column.write == ARRAY
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    put_byte(out, c"[" if is_array else c"{")
    for place in range(start, stop):
        if not is_array:
            if write(out, &column.children[0], place) < 0 or reserve(out, 1) < 0:
                return -1
            put_byte(out, c":")
        if write(out, &column.children[column.child_count - 1], place) < 0 or reserve(out, 1) < 0:
            return -1
        put_byte(out, c",")
    return close(out, c"]" if is_array else c"}")


cdef inline int close(Output* out, char bracket) noexcept nogil:
    """The bracket, in the place of the last comma."""
    if out.data[out.size - 1] == c",":
        out.size -= 1
    if reserve(out, 1) < 0:
        return -1
    put_byte(out, bracket)
    return 0


cdef inline void put_unsigned(Output* out, uint64_t number) noexcept nogil:
    cdef char text[20]
    cdef int place = 20
    while number or place == 20:
        place -= 1
        text[place] = <char>(c"0" + number % 10)
        number //= 10
    put(out, &text[place], 20 - place)


cdef inline void put_integer(Output* out, int64_t number) noexcept nogil:
    if number < 0:
        put_byte(out, c"-")
        put_unsigned(out, ~<uint64_t>number + 1)
    else:
        put_unsigned(out, <uint64_t>number)


cdef inline void put_digits(Output* out, uint32_t number, int count) noexcept nogil:
    """The lowest digits, with zeros before them."""
    cdef char* to = out.data + out.size
    cdef int place = count
    while place:
        place -= 1
        to[place] = <char>(c"0" + number % 10)
        number //= 10
    out.size += count


cdef int write_text(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start, stop
    cdef const uint8_t* at
    cdef const uint8_t* behind
    cdef const uint8_t* run
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    if not is_utf8(column.data + start, stop - start):
        return fail(out, NOT_UTF8, column)
    if reserve(out, stop - start + 2) < 0:
        return -1
    put_byte(out, c'"')
    at = column.data + start
    behind = column.data + stop
    while at < behind:
        run = at
        while at < behind and not escapes[at[0]]:
            at += 1
        if at > run:
            put(out, run, at - run)
        if at < behind:
            if reserve(out, behind - at + 6) < 0:
                return -1
            put_escaped(out, at[0])
            at += 1
    put_byte(out, c'"')
    return 0


cdef void put_escaped(Output* out, uint8_t byte) noexcept nogil:
    put_byte(out, c"\\")
    put_byte(out, escapes[byte])
    if escapes[byte] == c"u":
        put(out, <const char*>"00", 2)
        put_byte(out, HEX[byte >> 4])
        put_byte(out, HEX[byte & 15])


cdef int write_base64(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start, stop, rest
    cdef const uint8_t* at
    cdef uint32_t three
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    rest = stop - start
    if reserve(out, (rest + 2) // 3 * 4 + 2) < 0:
        return -1
    put_byte(out, c'"')
    at = column.data + start
    while rest > 0:
        three = <uint32_t>at[0] << 16
        if rest > 1:
            three |= <uint32_t>at[1] << 8
        if rest > 2:
            three |= at[2]
        put_byte(out, BASE64[three >> 18])
        put_byte(out, BASE64[three >> 12 & 63])
        put_byte(out, BASE64[three >> 6 & 63] if rest > 1 else c"=")
        put_byte(out, BASE64[three & 63] if rest > 2 else c"=")
        at += 3
        rest -= 3
    put_byte(out, c'"')
    return 0


cdef int write_date(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef int64_t days = 0
    if scaled(out, column, integer(column, row), &days) < 0:
        return -1
    if not FIRST_DAY <= days <= LAST_DAY:
        return fail(out, OUT_OF_RANGE, column)
    put_byte(out, c'"')
    put_day(out, days)
    put_byte(out, c'"')
    return 0


cdef void put_day(Output* out, int64_t days) noexcept nogil:
    """Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``."""
    cdef uint32_t shifted = <uint32_t>(days + 719_468)
    cdef uint32_t era = shifted // 146_097
    cdef uint32_t day_of_era = shifted - era * 146_097
    cdef uint32_t year = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    cdef uint32_t day = day_of_era - (365 * year + year // 4 - year // 100)
    cdef uint32_t month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    put_digits(out, year + era * 400 + (month <= 2), 4)
    put_byte(out, c"-")
    put_digits(out, month, 2)
    put_byte(out, c"-")
    put_digits(out, day + 1, 2)


cdef int write_time(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """A time of the day, or a timestamp."""
    cdef int64_t value = integer(column, row)
    cdef int64_t seconds = value // column.divide
    cdef int64_t fraction = value - seconds * column.divide
    cdef int64_t days = 0
    if fraction < 0:
        fraction += column.divide
        seconds -= 1
    if column.write == TIMESTAMP:
        days = seconds // SECONDS_OF_A_DAY
        seconds -= days * SECONDS_OF_A_DAY
        if seconds < 0:
            seconds += SECONDS_OF_A_DAY
            days -= 1
        if not FIRST_DAY <= days <= LAST_DAY:
            return fail(out, OUT_OF_RANGE, column)
    elif not 0 <= seconds < SECONDS_OF_A_DAY:
        return fail(out, OUT_OF_RANGE, column)
    put_byte(out, c'"')
    if column.write == TIMESTAMP:
        put_day(out, days)
        put_byte(out, c"T")
    put_digits(out, <uint32_t>(seconds // 3600), 2)
    put_byte(out, c":")
    put_digits(out, <uint32_t>(seconds // 60 % 60), 2)
    put_byte(out, c":")
    put_digits(out, <uint32_t>(seconds % 60), 2)
    if fraction:
        put_fraction(out, <uint32_t>(fraction * (1_000_000_000 // column.divide)))
    if column.write == TIMESTAMP and column.width:
        put_byte(out, c"Z")
    put_byte(out, c'"')
    return 0


cdef void put_fraction(Output* out, uint32_t nanos) noexcept nogil:
    """Three, six or nine digits."""
    put_byte(out, c".")
    if nanos % 1_000_000 == 0:
        put_digits(out, nanos // 1_000_000, 3)
    elif nanos % 1_000 == 0:
        put_digits(out, nanos // 1_000, 6)
    else:
        put_digits(out, nanos, 9)
