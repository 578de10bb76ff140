# cython: language_level=3, binding=False, wraparound=False, cdivision=True
"""The compiled form of ``protobuf_rows``: it makes no object for a row, and holds no lock."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memmove

from aioproducer.engine.columnar._speedups.columns cimport (
    ARRAY,
    BINARY,
    BOOLEAN,
    CONSTANT,
    DECIMAL,
    DOUBLE,
    ENUM,
    FIXED_32,
    FIXED_64,
    FLOAT,
    INTEGER,
    MAP,
    PACKED,
    RECORD,
    TEXT,
    TIMESTAMP,
    UUID,
    ZIGZAG,
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
    NO_SYMBOL,
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
    put_varint,
    reserve,
    scaled,
    zigzag,
)

cdef int64_t FIRST_SECOND = -62_135_596_800
"""The year 1; ``google.protobuf.Timestamp`` begins there."""
cdef int64_t END = 253_402_300_800
"""The year 10000."""
cdef enum:
    SECONDS = 0x08
    NANOS = 0x10
    # The tags of the fields 1 and 2, both varints.


def protobuf_rows(layout, Py_ssize_t rows, bytes prefix not None):
    """See ``protobuf_rows.protobuf_rows``."""
    return encoded(layout, rows, prefix, write_members)


cdef int write_members(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The fields of a message, the key and the value of an entry, or an item."""
    cdef int child
    for child in range(column.child_count):
        if write(out, &column.children[child], row) < 0:
            return -1
    return 0


cdef int write(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """A field with its tag, -1 if its value has a problem."""
    cdef Py_ssize_t before = out.size
    cdef Py_ssize_t value
    if reserve(out, column.most) < 0:
        return -1
    if column.write != CONSTANT and is_null(column, row):
        if column.null.size < 0:
            return fail(out, IS_NULL, column)
        put_text(out, &column.null)
        return 0
    if column.write == ARRAY or column.write == PACKED or column.write == MAP:
        return write_items(out, column, row)
    put_text(out, &column.before)
    value = out.size
    if column.write == RECORD:
        out.size += 1
        if write_members(out, column, row) < 0:
            return -1
        return close(out, value)
    if write_value(out, column, row) < 0:
        return -1
    if column.leaves_out_default and is_zero(out, value):
        out.size = before
    return 0


cdef inline bint is_zero(const Output* out, Py_ssize_t value) noexcept nogil:
    for value in range(value, out.size):
        if out.data[value]:
            return False
    return True


cdef int write_value(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef int64_t number = 0
    cdef int32_t short_number
    cdef float single
    cdef double wide
    cdef Py_ssize_t before
    if column.write == INTEGER:
        if scaled(out, column, integer(column, row), &number) < 0:
            return -1
        put_varint(out, <uint64_t>number)
    elif column.write == DOUBLE:
        wide = double_number(column, row)
        put(out, &wide, 8)
    elif column.write == TEXT or column.write == BINARY:
        return write_binary(out, column, row)
    elif column.write == BOOLEAN:
        put_byte(out, boolean(column, row))
    elif column.write == FLOAT:
        single = float_number(column, row)
        put(out, &single, 4)
    elif column.write == TIMESTAMP:
        return write_timestamp(out, column, row)
    elif column.write == DECIMAL:
        before = out.size
        out.size += 1
        if write_decimal(out, column, row) < 0:
            return -1
        return close(out, before)
    elif column.write == ZIGZAG:
        put_varint(out, zigzag(integer(column, row)))
    elif column.write == FIXED_64:
        number = integer(column, row)
        put(out, &number, 8)
    elif column.write == FIXED_32:
        short_number = <int32_t>integer(column, row)
        put(out, &short_number, 4)
    elif column.write == ENUM:
        return write_enum(out, column, row)
    elif column.write == UUID:
        put_byte(out, 36)
        put_uuid(out, column, row)
    return 0


cdef int close(Output* out, Py_ssize_t start) noexcept nogil:
    """The size of what is behind the byte at ``start``, which was left free for it."""
    cdef Py_ssize_t size = out.size - start - 1
    cdef Py_ssize_t more = 0
    cdef uint64_t rest = <uint64_t>size >> 7
    while rest:
        rest >>= 7
        more += 1
    if more:
        if reserve(out, more) < 0:
            return -1
        memmove(out.data + start + 1 + more, out.data + start + 1, size)
    out.size = start
    put_varint(out, size)
    out.size += size
    return 0


cdef int write_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The items of an array, or the entries of a map."""
    cdef Py_ssize_t start, stop, place, size
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    if column.write == ARRAY:
        for place in range(start, stop):
            if write_members(out, column, place) < 0:
                return -1
        return 0
    if column.write == PACKED:
        if start == stop:
            return 0
        put_text(out, &column.before)
        size = out.size
        out.size += 1
        for place in range(start, stop):
            if write_members(out, column, place) < 0:
                return -1
        return close(out, size)
    for place in range(start, stop):
        if reserve(out, column.most) < 0:
            return -1
        put_text(out, &column.before)
        size = out.size
        out.size += 1
        if write_members(out, column, place) < 0 or close(out, size) < 0:
            return -1
    return 0


cdef int write_binary(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start, stop
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    if column.write == TEXT and not is_utf8(column.data + start, stop):
        return fail(out, NOT_UTF8, column)
    if reserve(out, stop + 10) < 0:
        return -1
    put_varint(out, stop)
    if stop:
        put(out, column.data + start, stop)
    return 0


cdef int write_enum(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The number behind the symbol."""
    cdef Py_ssize_t start, stop
    cdef int symbol
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    for symbol in range(0, column.symbol_count, 2):
        if column.symbols[symbol].size == stop and (
            stop == 0 or memcmp(column.symbols[symbol].at, column.data + start, stop) == 0
        ):
            put_text(out, &column.symbols[symbol + 1])
            return 0
    return fail(out, NO_SYMBOL, column)


cdef int write_timestamp(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t before = out.size
    cdef int64_t value = integer(column, row)
    cdef int64_t seconds = value // column.divide
    cdef int64_t fraction = value - seconds * column.divide
    if fraction < 0:
        fraction += column.divide
        seconds -= 1
    if not FIRST_SECOND <= seconds < END:
        return fail(out, OUT_OF_RANGE, column)
    out.size += 1
    if seconds:
        put_byte(out, SECONDS)
        put_varint(out, <uint64_t>seconds)
    if fraction:
        put_byte(out, NANOS)
        put_varint(out, fraction * (1_000_000_000 // column.divide))
    return close(out, before)
