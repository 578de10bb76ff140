# cython: language_level=3, binding=False, wraparound=False, cdivision=True
"""The encoders of Arrow's columns, compiled. Without them their references in Python run.

``avro_rows.py``, ``json_rows.py`` and ``protobuf_rows.py`` are the references. The first part reads
Arrow's buffers, the second one owns the output.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport isfinite
from libc.stdint cimport (
    INT64_MAX,
    int16_t,
    int32_t,
    int64_t,
    int8_t,
    uint16_t,
    uint32_t,
    uint64_t,
    uint8_t,
    uintptr_t,
)
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from aioproducer.engine.columnar import plan, plan as problems
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import SerializationError


# --- columns -------------------------------------------------------------------------------------
# The compiled form of ``layout``: every buffer is as large as the array says, or it is an error.

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


if [each.name for each in plan.Write] != (
    "CONSTANT BOOLEAN INTEGER FLOAT DOUBLE BINARY TEXT FIXED UUID ENUM DECIMAL RECORD ARRAY MAP "
    "DATE TIME TIMESTAMP ZIGZAG FIXED_32 FIXED_64 PACKED"
).split() or [int(each) for each in plan.Write] != list(range(PACKED + 1)):
    raise ImportError("the compiled part is not of these sources")

cdef Py_ssize_t MOST_SCALAR = 48
"""More than a value needs that has no text: a number, a UUID, a decimal with its size."""


cdef class Columns:
    """Owns what the C structs point to."""

    cdef object layout
    cdef list nodes
    cdef Column* all
    cdef Text* symbols
    cdef Py_ssize_t used
    cdef Py_ssize_t used_symbols
    cdef Py_ssize_t count
    def __cinit__(self, object layout):
        self.layout = layout
        self.nodes = []
        self.count, symbols = counted(layout)
        self.all = <Column*>calloc(self.count, sizeof(Column))
        self.symbols = <Text*>calloc(symbols or 1, sizeof(Text))
        if self.all is NULL or self.symbols is NULL:
            raise MemoryError
        self.used = 1
        self.fill(&self.all[0], layout)

    def __dealloc__(self):
        free(self.all)
        free(self.symbols)

    cdef int fill(self, Column* column, object layout) except -1:
        cdef Py_ssize_t first = self.used
        cdef Py_ssize_t number
        cdef Column* child
        cdef tuple children = layout.children
        node = layout.node
        column.write = <Write><int>node.write
        column.number = <int>len(self.nodes)
        self.nodes.append(node)
        text(&column.before, node.before)
        if node.null is None:
            column.null.size = -1
        else:
            text(&column.null, node.null)
        column.multiply = node.multiply
        column.divide = node.divide
        column.most_multiplied = INT64_MAX // column.multiply
        column.width = node.width
        column.leaves_out_default = node.leaves_out_default
        column.most = max(column.before.size, column.null.size) + MOST_SCALAR
        self.fill_symbols(column, node.symbols)
        if layout.array is None:
            return 0
        column.children = &self.all[first]
        column.child_count = <int>len(children)
        self.used += column.child_count
        self.fill_buffers(column, layout.array)
        for number in range(column.child_count):
            child = &column.children[number]
            self.fill(child, children[number])
            if column.read == READ_STRUCT:
                if child.write != CONSTANT and child.length < column.length:
                    raise malformed(node)
            elif child.write == CONSTANT:
                pass
            elif number == 0:
                column.size = child.length
            else:
                column.size = min(column.size, child.length)
        return 0

    cdef int fill_symbols(self, Column* column, tuple symbols) except -1:
        column.symbols = &self.symbols[self.used_symbols]
        column.symbol_count = <int>len(symbols)
        for symbol in symbols:
            text(&self.symbols[self.used_symbols], symbol)
            self.used_symbols += 1
        return 0

    cdef int fill_buffers(self, Column* column, object array) except -1:
        cdef list buffers = array.buffers()
        column.offset = array.offset
        column.length = len(array)
        column.read = read_form(array.type)
        if array.null_count:
            column.validity = address(buffers[0], (column.offset + column.length + 7) // 8)
        self.fill_values(column, buffers, array)
        return 0

    cdef int fill_values(self, Column* column, list buffers, object array) except -1:
        cdef Py_ssize_t places = column.offset + column.length
        cdef Py_ssize_t width = 4
        if column.read == READ_STRUCT:
            return 0
        if column.read == READ_FIXED_LIST:
            column.item_size = array.type.list_size
            column.size = len(array.values)
            return 0
        if column.read == READ_BITS:
            column.data = address(buffers[1], (places + 7) // 8)
            return 0
        if column.read < READ_BINARY:
            column.item_size = array.type.bit_width // 8
            column.size = column.item_size * places
            column.data = address(buffers[1], column.size)
            return 0
        if column.read == READ_LARGE_BINARY or column.read == READ_LARGE_LIST:
            width = 8
        if column.length:
            column.offsets = address(buffers[1], width * (places + 1))
        if column.read == READ_BINARY or column.read == READ_LARGE_BINARY:
            if buffers[2] is not None:
                column.size = buffers[2].size
                column.data = address(buffers[2], column.size)
        else:
            column.size = len(array.values)
        return 0


cdef tuple counted(object layout):
    """The nodes and the symbols of a tree."""
    cdef Py_ssize_t nodes = 1
    cdef Py_ssize_t symbols = len(layout.node.symbols)
    for child in layout.children:
        more_nodes, more_symbols = counted(child)
        nodes += more_nodes
        symbols += more_symbols
    return nodes, symbols


cdef int text(Text* to, bytes value) except -1:
    """The node keeps the bytes."""
    to.at = PyBytes_AS_STRING(value)
    to.size = len(value)
    return 0


cdef const uint8_t* address(object buffer, Py_ssize_t size) except? NULL:
    if size == 0:
        return NULL
    if buffer is None or buffer.size < size or not buffer.is_cpu:
        raise SerializationError(f"a buffer of an Arrow array has not its {size} bytes")
    return <const uint8_t*><uintptr_t>buffer.address


cdef object malformed(object node):
    return SerializationError(f"the members of the column {node.path!r} are too short")


cdef Read read_form(object kind) except *:
    types = imported_pyarrow().types
    for is_form, form in (
        (types.is_struct, READ_STRUCT),
        (types.is_list, READ_LIST),
        (types.is_map, READ_LIST),
        (types.is_large_list, READ_LARGE_LIST),
        (types.is_fixed_size_list, READ_FIXED_LIST),
        (types.is_string, READ_BINARY),
        (types.is_binary, READ_BINARY),
        (types.is_large_string, READ_LARGE_BINARY),
        (types.is_large_binary, READ_LARGE_BINARY),
        (types.is_boolean, READ_BITS),
        (types.is_float32, READ_FLOAT),
        (types.is_float64, READ_DOUBLE),
        (types.is_decimal, READ_FIXED),
        (types.is_fixed_size_binary, READ_FIXED),
        (types.is_int8, READ_INT8),
        (types.is_int16, READ_INT16),
        (types.is_uint8, READ_UINT8),
        (types.is_uint16, READ_UINT16),
        (types.is_uint32, READ_UINT32),
        (types.is_uint64, READ_UINT64),
    ):
        if is_form(kind):
            return form
    if types.is_int64(kind) or types.is_temporal(kind) and kind.bit_width == 64:
        return READ_INT64
    if types.is_int32(kind) or types.is_temporal(kind) and kind.bit_width == 32:
        return READ_INT32
    raise SerializationError(f"an array of type {kind} can't be read")


# --- output --------------------------------------------------------------------------------------
# Rows of any format: the loop over them, its result as an array, its error.

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


if [each.name for each in problems.Problem] != (
    "NULL RANGE INEXACT SIZE SYMBOL UTF8 DECIMAL MALFORMED NOT_FINITE"
).split() or [int(each) for each in problems.Problem] != list(range(1, NOT_FINITE + 1)):
    raise ImportError("the compiled part is not of these sources")

cdef Py_ssize_t MOST_BYTES = 2**31 - 1
"""Of a binary array with offsets of 32 bits."""
cdef Py_ssize_t FIRST_ROOM = 32
"""Bytes a node and row, before the output grows."""


cdef class Block:
    """Memory that the buffers of arrays point to."""

    cdef void* data
    cdef Py_ssize_t size
    def __cinit__(self, Py_ssize_t size):
        self.size = size
        self.data = calloc(size or 1, 1)
        if self.data is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


cdef object encoded(
    object layout,
    Py_ssize_t rows,
    bytes prefix,
    int (*write)(Output*, const Column*, Py_ssize_t) noexcept nogil,
):
    """A binary array of the rows that ``write`` writes; a row that is null stays null."""
    cdef Columns columns = Columns(layout)
    cdef const Column* root = &columns.all[0]
    cdef Block offsets = Block(8 * (rows + 1))
    cdef Block validity = Block((rows + 7) // 8 if root.validity is not NULL else 0)
    cdef Block data = Block(0)
    cdef Output out
    cdef Text before
    cdef Py_ssize_t row
    if root.write != CONSTANT and rows > root.length:
        raise ValueError(f"the column has {root.length} rows, not {rows}")
    out.capacity = rows * (len(prefix) + columns.count * FIRST_ROOM) + 64
    before.at = PyBytes_AS_STRING(prefix)
    before.size = len(prefix)
    out.size = 0
    out.problem = NO_PROBLEM
    out.number = 0
    out.data = <char*>malloc(out.capacity)
    if out.data is NULL:
        raise MemoryError
    with nogil:
        row = write_rows(&out, root, rows, &before, offsets.data, validity.data, write)
    free(data.data)
    data.data = out.data
    data.size = out.size
    if out.problem == NO_MEMORY:
        raise MemoryError
    if out.problem != NO_PROBLEM:
        node = columns.nodes[out.number]
        raise problems.problem(problems.Problem(<int>out.problem), node, row)
    return result(rows, None if root.validity is NULL else validity, offsets, data)


cdef Py_ssize_t write_rows(
    Output* out,
    const Column* root,
    Py_ssize_t rows,
    const Text* prefix,
    void* offsets,
    void* validity,
    int (*write)(Output*, const Column*, Py_ssize_t) noexcept nogil,
) noexcept nogil:
    """The rows that were written: less than ``rows`` if there is a problem."""
    cdef int64_t* starts = <int64_t*>offsets
    cdef uint8_t* valid = <uint8_t*>validity
    cdef Py_ssize_t row
    for row in range(rows):
        starts[row] = out.size
        if root.validity is not NULL:
            if is_null(root, row):
                continue
            valid[row >> 3] |= <uint8_t>(1 << (row & 7))
        if reserve(out, prefix.size) < 0:
            return row
        put_text(out, prefix)
        if write(out, root, row) < 0:
            return row
    starts[rows] = out.size
    return rows


cdef object result(Py_ssize_t rows, Block validity, Block offsets, Block data):
    """The array. The memory that was never written to is given back."""
    cdef void* shorter = realloc(data.data, data.size or 1)
    cdef bint large = data.size > MOST_BYTES
    if shorter is not NULL:
        data.data = shorter
    if not large:
        offsets = short_offsets(offsets, rows)
    arrow = imported_pyarrow()
    kind = arrow.large_binary() if large else arrow.binary()
    buffers = [each if each is None else arrow.py_buffer(each) for each in (validity, offsets, data)]
    return arrow.Array.from_buffers(kind, rows, buffers)


cdef Block short_offsets(Block offsets, Py_ssize_t rows):
    cdef Block shorter = Block(4 * (rows + 1))
    cdef Py_ssize_t row
    for row in range(rows + 1):
        (<int32_t*>shorter.data)[row] = <int32_t>(<int64_t*>offsets.data)[row]
    return shorter


# --- decimals ------------------------------------------------------------------------------------
# Decimals of Arrow as text.

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


# --- shortest ------------------------------------------------------------------------------------
# Floats as Python's ``repr`` writes them, without a Python object. Source: Raffaello Giulietti,
# "The Schubfach way to render doubles"; the names are those of the paper.

cdef enum:
    LONGEST_FLOAT = 32


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


# --- avro_rows -----------------------------------------------------------------------------------
# The compiled form of ``avro_rows``: it makes no object for a row, and holds no lock.

def avro_rows(layout, Py_ssize_t rows, bytes prefix not None):
    """See ``avro_rows.avro_rows``."""
    return encoded(layout, rows, prefix, write_avro)


cdef int write_avro(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The value of a row, -1 if it has a problem."""
    cdef int64_t number = 0
    cdef float single
    cdef double wide
    cdef int child, symbol
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
        return write_binary(out, column, row, True)
    elif column.write == RECORD:
        for child in range(column.child_count):
            if write_avro(out, &column.children[child], row) < 0:
                return -1
    elif column.write == BOOLEAN:
        put_byte(out, boolean(column, row))
    elif column.write == FLOAT:
        single = float_number(column, row)
        put(out, &single, 4)
    elif column.write == DECIMAL:
        return write_avro_decimal(out, column, row)
    elif column.write == CONSTANT:
        pass
    elif column.write == FIXED:
        return write_fixed(out, column, row)
    elif column.write == UUID:
        put_varint(out, zigzag(36))
        put_uuid(out, column, row)
    elif column.write == ENUM:
        symbol = find_symbol(out, column, row, 1)
        if symbol < 0:
            return -1
        put_varint(out, zigzag(symbol))
    else:
        return write_avro_items(out, column, row)
    return 0


cdef int write_binary(
    Output* out, const Column* column, Py_ssize_t row, bint zigzagged
) noexcept nogil:
    """The length, as Avro writes it or as Protobuf does, and the bytes."""
    cdef Py_ssize_t start, stop
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    if column.write == TEXT and not is_utf8(column.data + start, stop):
        return fail(out, NOT_UTF8, column)
    if reserve(out, stop + 10) < 0:
        return -1
    put_varint(out, zigzag(stop) if zigzagged else <uint64_t>stop)
    if stop:
        put(out, column.data + start, stop)
    return 0


cdef int find_symbol(
    Output* out, const Column* column, Py_ssize_t row, int step
) noexcept nogil:
    """The place of a row's symbol among those of the schema, each of ``step`` texts; -1: none."""
    cdef Py_ssize_t start, stop
    cdef int symbol = 0
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    stop -= start
    while symbol < column.symbol_count:
        if column.symbols[symbol].size == stop and (
            stop == 0 or memcmp(column.symbols[symbol].at, column.data + start, stop) == 0
        ):
            return symbol
        symbol += step
    return fail(out, NO_SYMBOL, column)


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


cdef int write_avro_decimal(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
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


cdef int write_avro_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The items of an array, or the keys and values of a map, as one block."""
    cdef Py_ssize_t start, stop, place
    cdef int child
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    if stop > start:
        put_varint(out, zigzag(stop - start))
        for place in range(start, stop):
            for child in range(column.child_count):
                if write_avro(out, &column.children[child], place) < 0:
                    return -1
        if reserve(out, 1) < 0:
            return -1
    put_byte(out, 0)
    return 0


# --- json_rows -----------------------------------------------------------------------------------
# The compiled form of ``json_rows``: it makes no object for a row, and holds no lock.

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
    return encoded(layout, rows, prefix, write_json)


cdef int write_json(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
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
        return write_json_items(out, column, row)
    return 0


cdef int write_object(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """A struct. A null member has written nothing, and gets no comma."""
    cdef Py_ssize_t before
    cdef int child
    put_byte(out, c"{")
    for child in range(column.child_count):
        before = out.size
        if write_json(out, &column.children[child], row) < 0 or reserve(out, 1) < 0:
            return -1
        if out.size > before:
            put_byte(out, c",")
    return close_json(out, c"}")


cdef int write_json_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
    """The items of an array, or the keys and values of a map."""
    cdef Py_ssize_t start, stop, place
    cdef bint is_array = column.write == ARRAY
    if not ends(column, row, &start, &stop):
        return fail(out, IS_MALFORMED, column)
    put_byte(out, c"[" if is_array else c"{")
    for place in range(start, stop):
        if not is_array:
            if write_json(out, &column.children[0], place) < 0 or reserve(out, 1) < 0:
                return -1
            put_byte(out, c":")
        if write_json(out, &column.children[column.child_count - 1], place) < 0 or reserve(out, 1) < 0:
            return -1
        put_byte(out, c",")
    return close_json(out, c"]" if is_array else c"}")


cdef inline int close_json(Output* out, char bracket) noexcept nogil:
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
        put_fraction(
            out,
            <uint32_t>(fraction * (1_000_000_000 // column.divide)),
            3 if column.write == TIMESTAMP else 1,
        )
    if column.write == TIMESTAMP and column.width:
        put_byte(out, c"Z")
    put_byte(out, c'"')
    return 0


cdef void put_fraction(Output* out, uint32_t nanos, int group) noexcept nogil:
    """Nine digits without the zeros at their end, of which a ``group`` is left out or none."""
    cdef uint32_t zeros = 1_000 if group == 3 else 10
    cdef int digits = 9
    while nanos % zeros == 0:
        nanos //= zeros
        digits -= group
    put_byte(out, c".")
    put_digits(out, nanos, digits)


# --- protobuf_rows -------------------------------------------------------------------------------
# The compiled form of ``protobuf_rows``: it makes no object for a row, and holds no lock.

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
        if write_protobuf(out, &column.children[child], row) < 0:
            return -1
    return 0


cdef int write_protobuf(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
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
        return write_protobuf_items(out, column, row)
    put_text(out, &column.before)
    value = out.size
    if column.write == RECORD:
        out.size += 1
        if write_members(out, column, row) < 0:
            return -1
        return close_message(out, value)
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
    cdef int symbol
    if column.write == INTEGER:
        if scaled(out, column, integer(column, row), &number) < 0:
            return -1
        put_varint(out, <uint64_t>number)
    elif column.write == DOUBLE:
        wide = double_number(column, row)
        put(out, &wide, 8)
    elif column.write == TEXT or column.write == BINARY:
        return write_binary(out, column, row, False)
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
        return close_message(out, before)
    elif column.write == ZIGZAG:
        put_varint(out, zigzag(integer(column, row)))
    elif column.write == FIXED_64:
        number = integer(column, row)
        put(out, &number, 8)
    elif column.write == FIXED_32:
        short_number = <int32_t>integer(column, row)
        put(out, &short_number, 4)
    elif column.write == ENUM:
        symbol = find_symbol(out, column, row, 2)
        if symbol < 0:
            return -1
        put_text(out, &column.symbols[symbol + 1])  # the number behind the symbol
    elif column.write == UUID:
        put_byte(out, 36)
        put_uuid(out, column, row)
    return 0


cdef int close_message(Output* out, Py_ssize_t start) noexcept nogil:
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


cdef int write_protobuf_items(Output* out, const Column* column, Py_ssize_t row) noexcept nogil:
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
        return close_message(out, size)
    for place in range(start, stop):
        if reserve(out, column.most) < 0:
            return -1
        put_text(out, &column.before)
        size = out.size
        out.size += 1
        if write_members(out, column, place) < 0 or close_message(out, size) < 0:
            return -1
    return 0


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
    return close_message(out, before)
