# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``columns``: Arrow's columns, and their rows by partition."""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from aioproducer.engine.records._speedups.route cimport route
from aioproducer.engine.records._speedups.varint cimport varint_size, write_field, write_varint

from aioproducer.errors import SerializationError


cdef inline int64_t number_at(
    const Py_buffer* numbers, Py_ssize_t place, Py_ssize_t width
) noexcept nogil:
    """A number of 8 or 4 bytes. memcpy, since Arrow does not promise aligned buffers."""
    cdef int64_t wide
    cdef int32_t narrow
    if width == 8:
        memcpy(&wide, <const char*>numbers.buf + 8 * place, 8)
        return wide
    memcpy(&narrow, <const char*>numbers.buf + 4 * place, 4)
    return narrow


cdef class Column:
    """See ``columns``: the base of all columns."""

    def __dealloc__(self):
        PyBuffer_Release(&self.validity)
        PyBuffer_Release(&self.data)

    def __len__(self):
        return self.count

    cdef int begin(self, validity, data, Py_ssize_t first, Py_ssize_t count, bint wide) except -1:
        """Take the buffers and check them. The caller sets the count when it has done the same."""
        if self.width:
            raise TypeError("a column is made once")
        self.first = first
        self.width = 8 if wide else 4
        PyObject_GetBuffer(b"" if data is None else data, &self.data, PyBUF_SIMPLE)
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
        if first < 0 or count < 0:
            raise SerializationError("a column begins and ends within its buffers")
        if validity is not None and count and self.validity.len * 8 - first < count:
            raise SerializationError("a column's bitmap of nulls is too short")
        return 0

    cdef Py_ssize_t place(self, Py_ssize_t row) except -2:
        """The place of the row in the buffers; -1 if it is null."""
        if not 0 <= row < self.count:
            raise IndexError(f"the column has {self.count} rows, and no row {row}")
        cdef Py_ssize_t place = self.first + row
        cdef const unsigned char* bits = <const unsigned char*>self.validity.buf
        if bits is not NULL and not bits[place >> 3] >> (place & 7) & 1:
            return -1
        return place


cdef class BinaryColumn(Column):
    """See ``columns.BinaryColumn``."""

    def __init__(self, validity, offsets, data, Py_ssize_t first, Py_ssize_t count, *, bint wide):
        self.begin(validity, data, first, count, wide)
        PyObject_GetBuffer(b"" if offsets is None else offsets, &self.offsets, PyBUF_SIMPLE)
        if count and self.offsets.len // self.width - 1 - first < count:
            raise SerializationError("a column has fewer offsets than rows")
        self.count = count

    def __dealloc__(self):
        PyBuffer_Release(&self.offsets)

    cdef Py_ssize_t read(self, Py_ssize_t row, const char** at) except -2:
        """The size of the row's bytes, and their place; -1: the row is null."""
        cdef Py_ssize_t place = self.place(row)
        cdef int64_t begin, end
        if place < 0:
            return -1
        begin = number_at(&self.offsets, place, self.width)
        end = number_at(&self.offsets, place + 1, self.width)
        if not 0 <= begin <= end <= self.data.len:
            raise SerializationError("a column's offsets do not fit its data")
        at[0] = <const char*>self.data.buf + begin
        return end - begin

    def __getitem__(self, Py_ssize_t row):
        cdef const char* at = NULL
        cdef Py_ssize_t size = self.read(row, &at)
        return None if size < 0 else PyBytes_FromStringAndSize(at, size)


cdef class IntColumn(Column):
    """See ``columns.IntColumn``."""

    def __init__(self, validity, data, Py_ssize_t first, Py_ssize_t count, *, bint wide):
        self.begin(validity, data, first, count, wide)
        if count and self.data.len // self.width - first < count:
            raise SerializationError("a column has fewer numbers than rows")
        self.count = count

    cdef bint read(self, Py_ssize_t row, int64_t* number) except -1:
        """True if the row is not null, and the row's number."""
        cdef Py_ssize_t place = self.place(row)
        if place < 0:
            return False
        number[0] = number_at(&self.data, place, self.width)
        return True

    def __getitem__(self, Py_ssize_t row):
        cdef int64_t number = 0
        return number if self.read(row, &number) else None


cdef class HeadersColumn(Column):
    """See ``columns.HeadersColumn``."""

    def __init__(
        self,
        validity,
        offsets,
        BinaryColumn names not None,
        BinaryColumn values not None,
        Py_ssize_t first,
        Py_ssize_t count,
        *,
        bint wide,
    ):
        self.begin(validity, None, first, count, wide)
        self.names = names
        self.values = values
        PyObject_GetBuffer(b"" if offsets is None else offsets, &self.offsets, PyBUF_SIMPLE)
        if count and self.offsets.len // self.width - 1 - first < count:
            raise SerializationError("a column has fewer offsets than rows")
        self.count = count

    def __dealloc__(self):
        PyBuffer_Release(&self.offsets)

    cdef int items(self, Py_ssize_t row, int64_t* begin, int64_t* end) except -1:
        """The row's first pair, and the place behind its last; both are 0 if the row is null."""
        cdef Py_ssize_t place = self.place(row)
        begin[0] = end[0] = 0
        if place < 0:
            return 0
        begin[0] = number_at(&self.offsets, place, self.width)
        end[0] = number_at(&self.offsets, place + 1, self.width)
        if not 0 <= begin[0] <= end[0] <= min(self.names.count, self.values.count):
            raise SerializationError("a column's offsets do not fit its data")
        return 0

    def __getitem__(self, Py_ssize_t row):
        cdef int64_t begin, end, item
        self.items(row, &begin, &end)
        pairs = []
        try:
            for item in range(begin, end):
                name = self.names[item]
                pairs.append((None if name is None else name.decode(), self.values[item]))
        except UnicodeDecodeError as error:
            raise SerializationError(f"the headers of row {row} are no valid text") from error
        return pairs or None

    cdef bytes tail(self, Py_ssize_t row):
        """The row's headers as ``builder.header_bytes`` writes them; None: no record can hold them.
        """
        try:
            return self.encode(row)
        except SerializationError:
            return None

    cdef bytes encode(self, Py_ssize_t row):
        cdef int64_t begin, end, item
        cdef const char* at = NULL
        cdef Py_ssize_t name_size, value_size, size
        cdef bytes tail
        cdef char* to
        self.items(row, &begin, &end)
        if begin == end:
            return b"\0"
        size = varint_size(end - begin)
        for item in range(begin, end):
            name_size = self.names.read(item, &at)
            if name_size < 0 or not is_text(at, name_size):
                return None
            value_size = self.values.read(item, &at)
            size += varint_size(name_size) + name_size
            size += varint_size(value_size) + max(value_size, 0)
        tail = PyBytes_FromStringAndSize(NULL, size)
        to = write_varint(PyBytes_AS_STRING(tail), end - begin)
        for item in range(begin, end):
            name_size = self.names.read(item, &at)
            to = write_field(to, at, name_size)
            value_size = self.values.read(item, &at)
            to = write_field(to, at, value_size)
        return tail


cdef bint is_text(const char* at, Py_ssize_t size) except -1:
    """True if the bytes are valid UTF-8."""
    cdef Py_ssize_t place
    for place in range(size):
        if at[place] & 0x80:
            try:
                PyUnicode_DecodeUTF8(at, size, NULL)
            except UnicodeDecodeError:
                return False
            return True
    return True


def partitions_of_keys(BinaryColumn keys not None, int count):
    """See ``columns.partitions_of_keys``."""
    if count < 1:
        raise ValueError("the number of partitions must be at least 1")
    cdef array partitions = array("i", bytes(4 * keys.count))
    cdef int* partition_at = partitions.data.as_ints
    cdef const char* key = NULL
    cdef Py_ssize_t row, size
    for row in range(keys.count):
        size = keys.read(row, &key)
        partition_at[row] = <int>route(key, size, False, 0, count)
    return partitions


def route_of(bytes key, partition, Py_ssize_t count, *, bint ignore_keys):
    """See ``partitioning.route``."""
    if partition is not None:
        return partition if 0 <= partition < count else -2
    if key is None or ignore_keys:
        return -1
    return route(PyBytes_AS_STRING(key), len(key), False, 0, count)


def rows_by_partition(
    columns, Py_ssize_t base, Py_ssize_t start, Py_ssize_t stop, int count, *, bint ignore_keys
):
    """See ``columns.rows_by_partition``."""
    if count < 1 or start > stop:
        raise ValueError("the number of partitions must be at least 1, and stop not before start")
    cdef IntColumn partitions = columns.partitions
    cdef BinaryColumn keys = None if ignore_keys else columns.keys
    cdef array groups = array("q", bytes(8 * (stop - start)))
    cdef array ends = array("q", bytes(8 * (count + 2)))
    cdef int64_t* group_of = <int64_t*>groups.data.as_longlongs
    cdef int64_t* end_of = <int64_t*>ends.data.as_longlongs
    cdef Py_ssize_t place, size
    cdef Py_ssize_t taken = 0
    cdef const char* key = NULL
    cdef int64_t group, partition = 0
    cdef bint named
    for place in range(stop - start):
        named = partitions is not None and partitions.read(start + place, &partition)
        size = -1 if named or keys is None else keys.read(start + place, &key)
        group = 2 + route(key, size, named, partition, count)
        if place and (group == 1) != (group_of[0] == 1):
            break
        group_of[place] = group
        end_of[group] += 1
        taken += 1

    found = []
    cdef int64_t end = 0
    for group in range(count + 2):
        if end_of[group]:
            found.append((group - 2, end, end + end_of[group]))
            end += end_of[group]
            end_of[group] = end - end_of[group]
    cdef array rows = array("q", bytes(8 * taken))
    for place in range(taken):
        group = group_of[place]
        rows.data.as_longlongs[end_of[group]] = base + start + place
        end_of[group] += 1
    return rows, found
