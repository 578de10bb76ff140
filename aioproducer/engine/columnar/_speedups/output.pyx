# cython: language_level=3, binding=False, wraparound=False
"""Rows of any format: the loop over them, its result as an array, its error."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc, realloc

from aioproducer.engine.columnar._speedups.columns cimport CONSTANT, Columns, is_null

from aioproducer.engine.columnar import plan as problems
from aioproducer.engine.records.arrow import imported_pyarrow

if [each.name for each in problems.Problem] != (
    "NULL RANGE INEXACT SIZE SYMBOL UTF8 DECIMAL MALFORMED NOT_FINITE"
).split() or [int(each) for each in problems.Problem] != list(range(1, NOT_FINITE + 1)):
    raise ImportError("the compiled part is not of these sources")

cdef Py_ssize_t MOST_BYTES = 2**31 - 1
"""Of a binary array with offsets of 32 bits."""
cdef Py_ssize_t FIRST_ROOM = 32
"""Bytes a node and row, before the output grows."""


cdef class Block:
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
