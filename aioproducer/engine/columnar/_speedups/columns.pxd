"""A plan and the arrays of a batch as C sees them."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy


cdef enum Write:
    # ``plan.Write``; a difference is an error at the import.
    CONSTANT
    BOOLEAN
    INTEGER
    FLOAT
    DOUBLE
    BINARY
    TEXT
    FIXED
    UUID
    ENUM
    DECIMAL
    RECORD
    ARRAY
    MAP
    DATE
    TIME
    TIMESTAMP
    ZIGZAG
    FIXED_32
    FIXED_64
    PACKED


cdef enum Read:
    # The form of a column in Arrow's buffers.
    READ_NOTHING
    READ_BITS
    READ_INT8
    READ_INT16
    READ_INT32
    READ_INT64
    READ_UINT8
    READ_UINT16
    READ_UINT32
    READ_UINT64
    READ_FLOAT
    READ_DOUBLE
    READ_FIXED
    READ_BINARY
    READ_LARGE_BINARY
    READ_STRUCT
    READ_LIST
    READ_LARGE_LIST
    READ_FIXED_LIST


cdef struct Text:
    const char* at
    Py_ssize_t size


cdef struct Column:
    Write write
    Read read
    # Of the node, for errors.
    int number
    int child_count
    Column* children
    # Rows that may be read: ``data``, ``validity`` and ``offsets`` have them.
    Py_ssize_t length
    # The first row's place in the buffers.
    Py_ssize_t offset
    # NULL: no row is null.
    const uint8_t* validity
    const uint8_t* data
    const uint8_t* offsets
    # The bytes of ``data`` of a binary column, the items of a list.
    Py_ssize_t size
    # The bytes of a fixed value, the items of a fixed list.
    Py_ssize_t item_size
    # The most bytes that a value needs, besides its own text, items or members.
    Py_ssize_t most
    Text before
    # Its size is -1 if a null is an error.
    Text null
    int64_t multiply
    int64_t divide
    int64_t most_multiplied
    Py_ssize_t width
    Text* symbols
    int symbol_count
    bint leaves_out_default


cdef class Columns:
    """Owns what the C structs point to."""

    cdef object layout
    cdef list nodes
    cdef Column* all
    cdef Text* symbols
    cdef Py_ssize_t used
    cdef Py_ssize_t used_symbols
    cdef Py_ssize_t count

    cdef int fill(self, Column* column, object layout) except -1
    cdef int fill_buffers(self, Column* column, object array) except -1
    cdef int fill_values(self, Column* column, list buffers, object array) except -1
    cdef int fill_symbols(self, Column* column, tuple symbols) except -1


cdef inline bint is_null(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t place
    if column.validity is NULL:
        return False
    place = column.offset + row
    return not (column.validity[place >> 3] >> (place & 7)) & 1


cdef inline bint boolean(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t place = column.offset + row
    return (column.data[place >> 3] >> (place & 7)) & 1


cdef inline int64_t integer(const Column* column, Py_ssize_t row) noexcept nogil:
    """The number of a row, its bits if it has 64 and no sign.

    memcpy, since Arrow does not promise aligned buffers.
    """
    cdef Py_ssize_t place = column.offset + row
    cdef int64_t wide
    cdef int32_t number
    cdef uint32_t unsigned_number
    cdef int16_t short_number
    cdef uint16_t unsigned_short
    if column.read == READ_INT64 or column.read == READ_UINT64:
        memcpy(&wide, column.data + 8 * place, 8)
        return wide
    if column.read == READ_INT32:
        memcpy(&number, column.data + 4 * place, 4)
        return number
    if column.read == READ_INT16:
        memcpy(&short_number, column.data + 2 * place, 2)
        return short_number
    if column.read == READ_INT8:
        return <int8_t>column.data[place]
    if column.read == READ_UINT32:
        memcpy(&unsigned_number, column.data + 4 * place, 4)
        return unsigned_number
    if column.read == READ_UINT16:
        memcpy(&unsigned_short, column.data + 2 * place, 2)
        return unsigned_short
    return column.data[place]


cdef inline float float_number(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef float number
    memcpy(&number, column.data + 4 * (column.offset + row), 4)
    return number


cdef inline double double_number(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef double number
    if column.read == READ_FLOAT:
        return float_number(column, row)
    memcpy(&number, column.data + 8 * (column.offset + row), 8)
    return number


cdef inline bint ends(
    const Column* column, Py_ssize_t row, Py_ssize_t* start, Py_ssize_t* stop
) noexcept nogil:
    """The place of a row's bytes or items; False if it is not within the data."""
    cdef Py_ssize_t place = column.offset + row
    cdef int32_t pair[2]
    cdef int64_t wide_pair[2]
    if column.read == READ_BINARY or column.read == READ_LIST:
        memcpy(pair, column.offsets + 4 * place, 8)
        start[0] = pair[0]
        stop[0] = pair[1]
    elif column.read == READ_LARGE_BINARY or column.read == READ_LARGE_LIST:
        memcpy(wide_pair, column.offsets + 8 * place, 16)
        start[0] = wide_pair[0]
        stop[0] = wide_pair[1]
    else:
        start[0] = column.item_size * place
        stop[0] = start[0] + column.item_size
    return 0 <= start[0] <= stop[0] <= column.size
