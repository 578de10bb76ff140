# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``avro_rows``: it makes no object for a row, and holds no lock."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memset

from aioproducer.engine.columnar._speedups.columns cimport (
    BINARY,
    BOOLEAN,
    CONSTANT,
    DECIMAL,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INTEGER,
    RECORD,
    TEXT,
    UUID,
    Column,
    boolean,
    double_number,
    ends,
    float_number,
    integer,
    is_null,
)
from aioproducer.engine.columnar._speedups.output cimport (
    IS_MALFORMED,
    IS_NULL,
    NO_SYMBOL,
    NOT_UTF8,
    TOO_MANY_DIGITS,
    WRONG_SIZE,
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


def avro_rows(layout, Py_ssize_t rows, bytes prefix not None):
    """See ``avro_rows.avro_rows``."""
    return encoded(layout, rows, prefix, write)


cdef int write(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The value of a row, -1 if it has a problem."""
    cdef int64_t number = 0
    cdef float single
    cdef double wide
    cdef int child
    if reserve(out, column.most) < 0:
        return -1
    if column.write != CONSTANT and is_null(column, row):
        if column.null.size < 0:
            return fail(out, IS_NULL, column)
        put_text(out, &column.null)
        return 0
    put_text(out, &column.before)
    if column.write == INTEGER:
        number = integer(column, row)
        if scaled(out, column, number, &number) < 0:
            return -1
        put_varint(out, zigzag(number))
    elif column.write == DOUBLE:
        wide = double_number(column, row)
        put(out, &wide, 8)
    elif column.write == TEXT or column.write == BINARY:
        return write_binary(out, column, row)
    elif column.write == RECORD:
        for child in range(column.child_count):
            if write(out, &column.children[child], row) < 0:
                return -1
    elif column.write == BOOLEAN:
        put_byte(out, boolean(column, row))
    elif column.write == FLOAT:
        single = float_number(column, row)
        put(out, &single, 4)
    elif column.write == DECIMAL:
        return write_decimal(out, column, row)
    elif column.write == CONSTANT:
        pass
    elif column.write == FIXED:
        return write_fixed(out, column, row)
    elif column.write == UUID:
        put_varint(out, zigzag(36))
        put_uuid(out, column, row)
    elif column.write == ENUM:
        return write_enum(out, column, row)
    else:
        return write_items(out, column, row)
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
    put_varint(out, zigzag(stop))
    if stop:
        put(out, column.data + start, stop)
    return 0


cdef int write_fixed(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start, stop
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    if stop != column.width:
        return fail(out, WRONG_SIZE, column)
    if reserve(out, stop) < 0:
        return -1
    if stop:
        put(out, column.data + start, stop)
    return 0


cdef int write_enum(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start, stop
    cdef int symbol
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    for symbol in range(column.symbol_count):
        if column.symbols[symbol].size == stop and (
            stop == 0 or memcmp(column.symbols[symbol].at, column.data + start, stop) == 0
        ):
            put_varint(out, zigzag(symbol))
            return 0
    return fail(out, NO_SYMBOL, column)


cdef int write_decimal(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """Arrow has the number little-endian, Avro big-endian and in the fewest bytes."""
    cdef Py_ssize_t size = column.item_size
    cdef const uint8_t* at = column.data + size * (column.offset + row)
    cdef uint8_t sign = 0xFF if at[size - 1] & 0x80 else 0
    while size > 1 and at[size - 1] == sign and (at[size - 2] ^ sign) < 0x80:
        size -= 1
    if column.width == 0:
        put_varint(out, zigzag(size))
    elif size > column.width:
        return fail(out, TOO_MANY_DIGITS, column)
    else:
        if reserve(out, column.width) < 0:
            return -1
        memset(out.data + out.size, sign, column.width - size)
        out.size += column.width - size
    while size:
        size -= 1
        put_byte(out, at[size])
    return 0


cdef int write_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The items of an array, or the keys and values of a map, as one block."""
    cdef Py_ssize_t start, stop, place
    cdef int child
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    if stop > start:
        put_varint(out, zigzag(stop - start))
        for place in range(start, stop):
            for child in range(column.child_count):
                if write(out, &column.children[child], place) < 0:
                    return -1
        if reserve(out, 1) < 0:
            return -1
    put_byte(out, 0)
    return 0
