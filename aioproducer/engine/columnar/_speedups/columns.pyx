# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``layout``: every buffer is as large as the array says, or it is an error."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, uintptr_t
from libc.stdlib cimport calloc, free

from aioproducer.engine.columnar import plan
from aioproducer.errors import SerializationError
from aioproducer.engine.records.arrow import imported_pyarrow

if [each.name for each in plan.Write] != (
    "CONSTANT BOOLEAN INTEGER FLOAT DOUBLE BINARY TEXT FIXED UUID ENUM DECIMAL RECORD ARRAY MAP "
    "DATE TIME TIMESTAMP ZIGZAG FIXED_32 FIXED_64 PACKED"
).split() or [int(each) for each in plan.Write] != list(range(PACKED + 1)):
    raise ImportError("the compiled part is not of these sources")

cdef Py_ssize_t MOST_SCALAR = 48
"""More than a value needs that has no text: a number, a UUID, a decimal with its size."""


cdef class Columns:
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
