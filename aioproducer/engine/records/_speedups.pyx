# cython: language_level=3, binding=False, wraparound=False
"""The innermost loops, compiled. Without them the Python modules run that are their references.

Each class and function names its reference, most of them in ``records/``. The loops are all here,
or ``records/acceleration.py`` takes none of them.
"""

cimport cython
from aioproducer.engine.records.entry_token cimport EntryToken
from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromObject,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.object cimport PyObject, PyObject_Call
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from libc.time cimport time_t

import os
from aioproducer.engine.partitioning import STICKY, UNKNOWN
from aioproducer.engine.records.batch_header import (
    BATCH_OVERHEAD,
    BEFORE_CHECKSUM,
    LENGTH_COUNTS_FROM,
    MAGIC,
    crc32c,
)
from aioproducer.engine.records.builder import (
    AppendedRecord,
    MARK_GRANULE_NS,
    MAX_RECORD_OVERHEAD,
    SMALL_BATCH,
    check_fields,
    header_bytes,
)
from aioproducer.engine.records.bulk_tokens import BulkToken, _UNCHANGING
from aioproducer.engine.records.field_reader import MalformedRecordError
from aioproducer.engine.records.parsed_records import (
    ArrowBuffers,
    BinaryBuffers,
    COLUMN_TOO_LARGE,
    NO_TIMESTAMP,
)
from aioproducer.engine.records.routes import ENTRY
from aioproducer.errors import SerializationError
from aioproducer.model import ConsumerRecord, RecordMetadata
from asyncio import Future
from itertools import islice
from time import time_ns


# --- cpython_internals ---------------------------------------------------------------------------
# The only uses of CPython's internals: to keep objects from the garbage collector, and the object
# of the calling thread. ``AIOPRODUCER_PLAIN_OBJECTS=1`` in the environment shows all objects to
# it: ``python -m benchmarks --workloads bulk`` with and without the switch shows what it gains.
#
# - *Futures are not tracked.* The collector would visit each of thousands several times.
# - *A batch's list of hidden futures is not tracked.* The collector would visit each of its places.
# - *Metadata is not tracked.* A ``RecordMetadata`` holds str and int alone, so no cycle goes through
#   it. CPython notices this for a plain tuple, and not for a subclass.

cdef extern from "Python.h":
    bint is_tracked "PyObject_GC_IsTracked"(object)
    object PyType_GenericAlloc(type, Py_ssize_t)
    void PyObject_GC_UnTrack(PyObject*)
    void PyObject_GC_Track(PyObject*)
    PyObject* PyThreadState_GetDict()
    PyObject* PyDict_GetItemWithError(PyObject*, object) except? NULL

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000  /* a tuple keeps its hash; -1: it was not asked for */
    #define forget_hash(tuple) (((PyTupleObject*)(tuple))->ob_hash = -1)
    #else
    #define forget_hash(tuple) ((void)0)
    #endif
    """
    void forget_hash(object)

cdef str THREAD = "aioproducer: the object of this thread"
cdef bint ENABLED = not os.environ.get("AIOPRODUCER_PLAIN_OBJECTS")


cdef void untrack(object each) noexcept:
    """Hide ``each`` from the garbage collector, unless that is switched off."""
    if ENABLED:
        PyObject_GC_UnTrack(<PyObject*>each)


cdef void track(object each) noexcept:
    """Show ``each`` to the garbage collector again, if it was hidden."""
    if not is_tracked(each):
        PyObject_GC_Track(<PyObject*>each)


cdef object new_tuple(type cls, Py_ssize_t size):
    """An empty tuple of a subclass; the caller must fill its places before anything else."""
    made = PyType_GenericAlloc(cls, size)
    forget_hash(made)
    return made


cdef inline void put(made, Py_ssize_t place, field) noexcept:
    """Set a place of a new tuple, once."""
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, place, field)


def hide(each):
    """See ``delivery.hide``."""
    untrack(each)


def show(each):
    """See ``delivery.show``."""
    track(each)


def this_thread():
    """``threading.current_thread()``, kept in the state of the thread: a call costs a third."""
    cdef PyObject* state = PyThreadState_GetDict()
    cdef PyObject* found = NULL if state is NULL else PyDict_GetItemWithError(state, THREAD)
    if found is not NULL:
        return <object>found
    from threading import current_thread

    thread = current_thread()
    if state is not NULL:
        (<dict>state)[THREAD] = thread
    return thread


# --- arrays --------------------------------------------------------------------------------------
# The check of an array before C code reads its numbers.

cdef inline int check_type_code(array numbers, char expected) except -1:
    if numbers.ob_descr.typecode != expected:
        raise TypeError(f"an array of type {chr(expected)!r} is needed, not {numbers.typecode!r}")
    return 0


# --- varint --------------------------------------------------------------------------------------
# The compiled form of ``varint``, and fields with their size before them.

cdef inline uint64_t zigzag(int64_t number) noexcept:
    return (<uint64_t>number << 1) ^ (~<uint64_t>0 if number < 0 else 0)


cdef inline Py_ssize_t varint_size(int64_t number) noexcept:
    cdef uint64_t rest = zigzag(number)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline char* write_varint(char* to, int64_t number) noexcept:
    cdef uint64_t rest = zigzag(number)
    while rest > 0x7F:
        to[0] = <char>(rest & 0x7F | 0x80)
        to += 1
        rest >>= 7
    to[0] = <char>rest
    return to + 1


cdef inline char* write_field(char* to, const char* field, Py_ssize_t size) noexcept:
    to = write_varint(to, size)
    if size > 0:
        memcpy(to, field, size)
        to += size
    return to


# --- partitioning --------------------------------------------------------------------------------
# The compiled form of ``partitioning.murmur2_partition`` and ``partitioning.route``.

cdef inline uint32_t murmur2(const char* key, Py_ssize_t rest) noexcept:
    """Kafka's ``Utils.murmur2``."""
    cdef const unsigned char* at = <const unsigned char*>key
    cdef uint32_t mixed
    cdef uint32_t digest = <uint32_t>0x9747B28C ^ <uint32_t>rest
    while rest >= 4:
        mixed = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        mixed *= <uint32_t>0x5BD1E995
        mixed ^= mixed >> 24
        mixed *= <uint32_t>0x5BD1E995
        digest *= <uint32_t>0x5BD1E995
        digest ^= mixed
        at += 4
        rest -= 4
    if rest > 2:
        digest ^= <uint32_t>at[2] << 16
    if rest > 1:
        digest ^= <uint32_t>at[1] << 8
    if rest > 0:
        digest ^= at[0]
        digest *= <uint32_t>0x5BD1E995
    digest ^= digest >> 13
    digest *= <uint32_t>0x5BD1E995
    return digest ^ digest >> 15


cdef inline Py_ssize_t c_route(
    const char* key, Py_ssize_t size, bint named, int64_t partition, Py_ssize_t count
) noexcept:
    """``size`` -1: there is no key, or it is ignored. ``named``: the record names ``partition``."""
    if named:
        return partition if 0 <= partition < count else -2
    if size < 0:
        return -1
    return (murmur2(key, size) & 0x7FFFFFFF) % <uint32_t>count if count else -2


# --- columns -------------------------------------------------------------------------------------
# The compiled form of ``columns``: Arrow's columns, and their rows by partition.

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

    cdef Py_buffer validity
    cdef Py_buffer data
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef Py_ssize_t width

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


@cython.final
cdef class BinaryColumn(Column):
    """See ``columns.BinaryColumn``."""

    cdef Py_buffer offsets

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


@cython.final
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


@cython.final
cdef class HeadersColumn(Column):
    """See ``columns.HeadersColumn``."""

    cdef Py_buffer offsets
    cdef BinaryColumn names
    cdef BinaryColumn values

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
        partition_at[row] = <int>c_route(key, size, False, 0, count)
    return partitions


def route(bytes key, partition, Py_ssize_t count, *, bint ignore_keys):
    """See ``partitioning.route``."""
    if partition is not None:
        return partition if 0 <= partition < count else -2
    if key is None or ignore_keys:
        return -1
    return c_route(PyBytes_AS_STRING(key), len(key), False, 0, count)


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
        group = 2 + c_route(key, size, named, partition, count)
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


# --- builder -------------------------------------------------------------------------------------
# The compiled form of ``builder``. Every record is written straight into the buffer, after a
# check of the buffer's size: the caller may have replaced the buffer. No Python code runs between
# that check and the last byte.

cdef Py_ssize_t RECORDS_BEGIN = BATCH_OVERHEAD
cdef Py_ssize_t LONE_OVERHEAD = BATCH_OVERHEAD + MAX_RECORD_OVERHEAD
cdef int64_t GRANULE_NS = MARK_GRANULE_NS
cdef Py_ssize_t SMALL = SMALL_BATCH
cdef Py_ssize_t CHECKED_FROM = BEFORE_CHECKSUM.size
cdef Py_ssize_t COUNTED_FROM = LENGTH_COUNTS_FROM
cdef char FORMAT = MAGIC
cdef type APPENDED = AppendedRecord


cdef inline Py_ssize_t size_of(bytes field) noexcept:
    return -1 if field is None else PyBytes_GET_SIZE(field)


cdef inline const char* start_of(bytes field) noexcept:
    return NULL if field is None else PyBytes_AS_STRING(field)


cdef inline char* put_number(char* at, int64_t number, int size) noexcept:
    """Write the last ``size`` bytes of ``number``, the most significant one first."""
    cdef int place
    for place in range(size):
        at[place] = <char>(number >> (8 * (size - 1 - place)) & 0xFF)
    return at + size


cdef inline void put_start(char* at, Py_ssize_t size, int64_t checksum) noexcept:
    """Write what is before the checked part of a batch, and the checksum of that."""
    at = put_number(at, 0, 8)
    at = put_number(at, size - COUNTED_FROM, 4)
    at = put_number(at, -1, 4)
    at = put_number(at, FORMAT, 1)
    put_number(at, checksum, 4)


def new_buffer(Py_ssize_t size):
    # Without zeros: of the memory of a batch with few records, most is never touched.
    return PyByteArray_FromStringAndSize(NULL, size)


def batch_size_bound(key, value, headers):
    cdef Py_ssize_t size = LONE_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += len(header_bytes(headers))
    return size


@cython.final
cdef class RecordsBuilder:
    """See ``builder.RecordsBuilder``."""

    cdef public bytearray buffer
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t count
    cdef public list tokens
    cdef public object owner
    cdef readonly int64_t base_timestamp_ms
    cdef int64_t latest_timestamp_ms
    cdef readonly Py_ssize_t max_record_size
    # The first run and the first mark are most often the only ones, so they are no objects.
    cdef Py_ssize_t first_key_size
    cdef Py_ssize_t first_value_size
    cdef list later_runs
    cdef Py_ssize_t first_mark
    cdef int64_t first_mark_ns
    cdef list later_marks
    cdef int64_t last_mark_ns
    cdef int64_t last_timestamp_ms
    cdef Py_ssize_t last_key_size
    cdef Py_ssize_t last_value_size

    def __init__(self, bytearray buffer not None, Py_ssize_t limit):
        self.buffer = buffer
        self.limit = limit
        self.position = RECORDS_BEGIN
        self.count = 0
        self.tokens = []
        untrack(self.tokens)  # until it has a token that the collector sees
        self.later_runs = self.later_marks = None
        self.first_mark = -1
        self.owner = None
        self.base_timestamp_ms = self.latest_timestamp_ms = -1
        self.max_record_size = 0

    @property
    def records(self):
        return memoryview(self.buffer)[RECORDS_BEGIN:self.position]

    @property
    def runs(self):
        if not self.count:
            return []
        first = (0, self.base_timestamp_ms, self.first_key_size, self.first_value_size)
        return [first] if self.later_runs is None else [first, *self.later_runs]

    @property
    def marks(self):
        if self.first_mark < 0:
            return []
        first = (self.first_mark, self.first_mark_ns)
        return [first] if self.later_marks is None else [first, *self.later_marks]

    @property
    def max_timestamp_ms(self):
        if not self.count:
            raise ValueError("there are no records")
        return self.latest_timestamp_ms

    cpdef int mark(self, int64_t sent_ns) except -1:
        cdef int64_t later = sent_ns - self.last_mark_ns
        if self.first_mark < 0:
            self.first_mark = self.count
            self.first_mark_ns = self.last_mark_ns = sent_ns
        elif later < 0 or later >= GRANULE_NS:
            mark = (self.count, sent_ns)
            if self.later_marks is None:
                later_marks = []
                if self.later_marks is None:  # the collector may run a finalizer that sends
                    self.later_marks = later_marks
            self.later_marks.append(mark)
            self.last_mark_ns = sent_ns
        return 0

    def framed(
        self,
        int64_t attributes,
        int64_t producer_id,
        int64_t producer_epoch,
        int64_t base_sequence,
        compressed=None,
    ):
        cdef bytearray whole = self.buffer
        cdef Py_ssize_t end = self.position
        cdef int64_t latest = self.max_timestamp_ms
        cdef char* at
        cdef bytes batch
        if compressed is not None:
            whole = bytearray(RECORDS_BEGIN) + compressed
            end = len(whole)
        if end > len(whole):
            raise ValueError("the buffer is shorter than its records")
        at = PyByteArray_AS_STRING(whole) + CHECKED_FROM
        at = put_number(at, attributes, 2)
        at = put_number(at, self.count - 1, 4)
        at = put_number(at, self.base_timestamp_ms, 8)
        at = put_number(at, latest, 8)
        at = put_number(at, producer_id, 8)
        at = put_number(at, producer_epoch, 2)
        at = put_number(at, base_sequence, 4)
        put_number(at, self.count, 4)
        if end < SMALL:
            batch = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(whole), end)
            put_start(PyBytes_AS_STRING(batch), end, crc32c(batch[CHECKED_FROM:]))
            return batch
        view = memoryview(whole)[:end]  # no longer can anybody resize it
        put_start(PyByteArray_AS_STRING(whole), end, crc32c(view[CHECKED_FROM:]))
        return view if compressed is None else whole

    def close(self):
        self.limit = 0

    def release(self):
        self.limit = 0
        self.buffer = bytearray()
        self.tokens = []
        self.later_runs = self.later_marks = None

    def append(self, token, timestamp_ms, key, value, headers=(), int64_t sent_ns=-1):
        return self.append_checked(token, timestamp_ms, key, value, headers, sent_ns)

    def append_described(self, int64_t now_ns, timestamp_ms, key, value, headers=()):
        if timestamp_ms is None:
            timestamp_ms = now_ns // 1_000_000
        elif type(timestamp_ms) is bool:
            raise TypeError("a timestamp is an int, not a bool")
        cdef Py_ssize_t size = self.append_checked(None, timestamp_ms, key, value, headers, -1)
        if not size:
            return None
        made = new_tuple(APPENDED, 3)
        put(made, 0, self.count - 1)
        put(made, 1, size)
        put(made, 2, timestamp_ms)
        untrack(made)
        return made

    def copy_records(self, RecordsBuilder other not None, list tokens not None):
        cdef Py_ssize_t size = other.position - RECORDS_BEGIN
        if (
            self.count
            or len(self.buffer) < other.position
            or len(other.buffer) < other.position
            or len(tokens) != other.count
        ):
            raise ValueError("records are copied into an empty builder that has room for them")
        later_runs = None if other.later_runs is None else list(other.later_runs)
        memcpy(
            PyByteArray_AS_STRING(self.buffer) + RECORDS_BEGIN,
            PyByteArray_AS_STRING(other.buffer) + RECORDS_BEGIN,
            size,
        )
        self.position = other.position
        self.count = other.count
        self.base_timestamp_ms = other.base_timestamp_ms
        self.latest_timestamp_ms = other.latest_timestamp_ms
        self.max_record_size = other.max_record_size
        self.tokens = tokens
        self.first_key_size = other.first_key_size
        self.first_value_size = other.first_value_size
        self.later_runs = later_runs
        self.limit = 0

    def append_values(
        self, token, timestamp_ms, list values not None, Py_ssize_t start=0, headers=()
    ):
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t index
        if start < 0:
            start = max(0, start + len(values))
        for index in range(start, len(values)):
            value = values[index]
            if type(value) is not bytes or not self.write_fields(
                token,
                timestamp,
                NULL,
                -1,
                PyBytes_AS_STRING(value),
                PyBytes_GET_SIZE(value),
                tail,
                False,
            ):
                break
        return self.count - before

    def append_rows(
        self, token, timestamp_ms, columns, Py_ssize_t base, Py_ssize_t stop, headers=()
    ):
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        cdef HeadersColumn own_headers = columns.headers
        cdef BinaryColumn values = columns.values
        cdef BinaryColumn keys = columns.keys
        cdef IntColumn timestamps = columns.timestamps
        cdef array rows = token.rows
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t key_size = -1
        cdef const char* key = NULL
        cdef const char* value = NULL
        cdef Py_ssize_t place, row, value_size
        cdef int64_t at
        if values is None:
            raise TypeError("there is no column of values")
        if rows is not None:
            check_type_code(rows, b"q")
        for place in range(token.first, stop):
            if rows is None:
                row = place - base
            elif 0 <= place < len(rows):
                row = rows.data.as_longlongs[place] - base
            else:
                raise IndexError("there are fewer rows")
            at = timestamp
            if timestamps is not None:
                timestamps.read(row, &at)
            if keys is not None:
                key_size = keys.read(row, &key)
            value_size = values.read(row, &value)
            if own_headers is not None:
                tail = own_headers.tail(row)
            if at < 0 or tail is None or not self.write_fields(
                token, at, key, key_size, value, value_size, tail, False
            ):
                break
        return self.count - before

    cdef Py_ssize_t append_checked(
        self, token, timestamp_ms, key, value, headers, int64_t sent_ns
    ) except -1:
        if (
            type(timestamp_ms) is not int
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            check_fields(timestamp_ms, key, value)
        cdef int64_t timestamp = timestamp_ms
        if timestamp < 0:
            check_fields(timestamp_ms, key, value)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        return self.write(token, timestamp, key, value, tail, sent_ns)

    cdef Py_ssize_t write(
        self, token, int64_t timestamp, key, value, bytes tail, int64_t sent_ns
    ) except -1:
        cdef bytes key_bytes = None if key is None else PyBytes_FromObject(key)
        cdef bytes value_bytes = None if value is None else PyBytes_FromObject(value)
        if sent_ns >= 0:  # before the bytes: the collector may run a finalizer that sends
            self.mark(sent_ns)
        return self.write_fields(
            token,
            timestamp,
            start_of(key_bytes),
            size_of(key_bytes),
            start_of(value_bytes),
            size_of(value_bytes),
            tail,
            True,
        )

    cdef Py_ssize_t write_fields(
        self,
        token,
        int64_t timestamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
        bytes tail,
        bint described,
    ) except -1:
        """Write a record; a size of -1 stands for None, and ``tail`` is the rest of the record.

        ``described``: its timestamp and sizes are part of its result.
        """
        cdef int64_t delta = timestamp - self.base_timestamp_ms if self.count else 0
        cdef Py_ssize_t body = (
            1
            + varint_size(delta)
            + varint_size(self.count)
            + varint_size(key_size)
            + max(key_size, 0)
            + varint_size(value_size)
            + max(value_size, 0)
            + PyBytes_GET_SIZE(tail)
        )
        cdef Py_ssize_t size = varint_size(body) + body
        cdef Py_ssize_t end = self.position + size
        if end > self.limit or end > len(self.buffer):
            return 0

        cdef char* to = PyByteArray_AS_STRING(self.buffer) + self.position
        to = write_varint(to, body)
        to[0] = 0
        to = write_varint(to + 1, delta)
        to = write_varint(to, self.count)
        to = write_field(to, key, key_size)
        to = write_field(to, value, value_size)
        memcpy(to, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
        return self.keep(token, timestamp, key_size, value_size, size, described)

    cdef Py_ssize_t keep(
        self,
        token,
        int64_t timestamp,
        Py_ssize_t key_size,
        Py_ssize_t value_size,
        Py_ssize_t size,
        bint described,
    ) except -1:
        """Count a record whose bytes are written."""
        cdef Py_ssize_t index = self.count
        self.tokens.append(token)
        if is_tracked(token):
            track(self.tokens)
        self.position += size
        self.count = index + 1
        if size > self.max_record_size:
            self.max_record_size = size
        if timestamp > self.latest_timestamp_ms:
            self.latest_timestamp_ms = timestamp
        if index == 0:
            self.base_timestamp_ms = timestamp
            self.first_key_size = key_size
            self.first_value_size = value_size
        elif not described or (
            timestamp == self.last_timestamp_ms
            and key_size == self.last_key_size
            and value_size == self.last_value_size
        ):
            return size
        self.last_timestamp_ms = timestamp
        self.last_key_size = key_size
        self.last_value_size = value_size
        if index == 0:
            return size
        run = (index, timestamp, key_size, value_size)
        if self.later_runs is None:
            later = []
            if self.later_runs is None:
                self.later_runs = later
        self.later_runs.append(run)
        # Making these may have run the collector, and a finalizer that sends (in Python 3.11).
        if len(self.later_runs) > 1 and self.later_runs[len(self.later_runs) - 2][0] > index:
            self.later_runs.sort()
        return size


cdef int64_t checked_time(timestamp_ms) except -1:
    if type(timestamp_ms) is not int:
        check_fields(timestamp_ms, None, None)
    cdef int64_t timestamp = timestamp_ms
    if timestamp < 0:
        check_fields(timestamp_ms, None, None)
    return timestamp



# --- bulk_tokens ---------------------------------------------------------------------------------
# The compiled forms of ``bulk_tokens.fill_places`` and ``bulk_tokens.take_ahead``.

cdef frozenset UNCHANGING = _UNCHANGING


def take_ahead(iterator, Py_ssize_t most, list taken not None):
    """See ``bulk_tokens.take_ahead``."""
    for value in islice(iterator, most):
        taken.append(value)
        if type(value) is not bytes and type(value) not in UNCHANGING:
            return


def fill_places(
    array partitions not None, array offsets not None, token, int partition, int64_t base_offset
):
    """See ``bulk_tokens.fill_places``."""
    cdef Py_ssize_t first = token.first
    cdef Py_ssize_t count = token.count
    cdef array rows = token.rows
    cdef Py_ssize_t records = len(partitions)
    cdef Py_ssize_t there = records if rows is None else len(rows)
    cdef Py_ssize_t place, number
    cdef int64_t step = 1 if base_offset >= 0 else 0
    cdef int64_t offset = max(base_offset, -1)
    cdef int64_t* chosen = NULL
    if (
        records != len(offsets)
        or first < 0
        or count < 0
        or first > there
        or count > there - first
    ):
        raise IndexError("the bulk token's records are beyond the records that were counted")
    check_type_code(partitions, b"i")
    check_type_code(offsets, b"q")
    if rows is not None:
        check_type_code(rows, b"q")
        chosen = <int64_t*>rows.data.as_longlongs + first
        for number in range(count):
            if not 0 <= chosen[number] < records:
                raise IndexError("the bulk token's records are beyond the records that were counted")
    for number in range(count):
        place = first + number if chosen is NULL else chosen[number]
        partitions.data.as_ints[place] = partition
        offsets.data.as_longlongs[place] = offset
        offset += step


# --- delivery ------------------------------------------------------------------------------------
# The compiled form of ``delivery``.

cdef type BULK_TOKEN = BulkToken
cdef type METADATA = RecordMetadata
cdef type FUTURE = Future


@cython.final
cdef class RecordResults:
    """See ``delivery.RecordResults``."""

    cdef readonly object topic
    cdef readonly object partition
    cdef bint is_placed
    cdef uint64_t base_offset  # the offsets of a batch may go beyond int64_t
    cdef list runs
    cdef int64_t append_time_ms
    cdef object append_time
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    # The run of the record that was asked for last: its places in the batch, and its fields.
    cdef Py_ssize_t begin
    cdef Py_ssize_t end
    cdef object time
    cdef object key_size
    cdef object value_size

    def __init__(
        self,
        topic,
        partition,
        base_offset,
        list runs not None,
        int64_t append_time_ms,
        Py_ssize_t first,
        Py_ssize_t count,
    ):
        self.topic = topic
        self.partition = partition
        self.is_placed = base_offset >= 0
        self.base_offset = base_offset if self.is_placed else 0
        self.runs = runs
        self.append_time_ms = append_time_ms
        self.append_time = append_time_ms
        self.first = first
        self.count = count

    @classmethod
    def of(cls, metadata):
        """See ``delivery.RecordResults.of``."""
        topic, partition, offset, *described = metadata
        return RecordResults(topic, partition, offset, [(0, *described)], -1, 0, 1)

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            yield self.metadata(index)

    def __getitem__(self, index):
        cdef Py_ssize_t place
        if type(index) is slice:
            return [self[each] for each in range(*index.indices(self.count))]
        place = index
        return self.metadata(place + self.count if place < 0 else place)

    cpdef offset(self, Py_ssize_t index):
        if not self.is_placed:
            return -1
        return self.base_offset + <uint64_t>(self.first + index)

    cpdef timestamp_ms(self, Py_ssize_t index):
        self.seek(index)
        return self.time if self.append_time_ms < 0 else self.append_time

    cdef int seek(self, Py_ssize_t index) except -1:
        """Read the run of a record. No call is between: several threads may ask."""
        cdef Py_ssize_t at, low, high, middle
        cdef tuple run
        if not 0 <= index < self.count:
            raise IndexError("there are fewer records")
        at = self.first + index
        if self.begin <= at < self.end:
            return 0
        low, high = 0, len(self.runs)
        while high - low > 1:
            middle = (low + high) // 2
            if <Py_ssize_t>self.runs[middle][0] <= at:
                low = middle
            else:
                high = middle
        run = self.runs[low]
        self.begin = run[0]
        self.end = self.runs[high][0] if high < len(self.runs) else self.first + self.count
        self.time, self.key_size, self.value_size = run[1], run[2], run[3]
        return 0

    cdef metadata(self, Py_ssize_t index):
        self.seek(index)
        offset = self.offset(index)
        metadata = new_tuple(METADATA, 6)
        self.seek(index)  # a finalizer or another thread may have asked meanwhile
        put(metadata, 0, self.topic)
        put(metadata, 1, self.partition)
        put(metadata, 2, offset)
        put(metadata, 3, self.time if self.append_time_ms < 0 else self.append_time)
        put(metadata, 4, self.key_size)
        put(metadata, 5, self.value_size)
        untrack(metadata)
        return metadata


def fail_record(token, error):
    """See ``delivery.fail_record``."""
    if not token.done():
        if type(token) is FUTURE:
            track(token)
        token.set_exception(error)
        token.exception()


def deliver_records(
    list tokens not None,
    list runs not None,
    topic,
    partition,
    base_offset,
    int64_t append_time_ms,
    log_start_offset=-1,
):
    """See ``delivery.deliver_records``."""
    cdef Py_ssize_t first, index = 0
    cdef Py_ssize_t count = len(tokens)
    cdef bint is_together = False
    cdef RecordResults results = RecordResults(
        topic, partition, base_offset, runs, append_time_ms, 0, count
    )
    cdef RecordResults part
    kind = delivered = None
    while index < count:
        token, first = tokens[index], index
        index += 1
        if token is delivered:
            continue
        if type(token) is BULK_TOKEN:
            delivered = token
            if not token.done():
                token.deliver(topic, partition, results.offset(first))
            continue
        if type(token) is not kind:
            kind = type(token)
            is_together = hasattr(kind, "set_results")
        if is_together:
            while index < count and type(tokens[index]) is kind:
                index += 1
            part, several = results, tokens
            if index - first < count:
                several = tokens[first:index]
                part = RecordResults(
                    topic, partition, base_offset, runs, append_time_ms, first, index - first
                )
            kind.set_results(several, part, append_time_ms >= 0, log_start_offset)
        elif not token.done():
            token.set_result(results.metadata(first))



# --- routes, sending -----------------------------------------------------------------------------
# The compiled form of ``routes`` and ``sending.PythonFastPath``. Both are in one module,
# because every record would pay for the costlier call between modules.

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef extern from "time.h":
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum: TIME_UTC
    int timespec_get(timespec*, int) nogil


cdef Py_ssize_t FIELDS = ENTRY
cdef bytes NO_HEADERS = b"\0"
cdef Py_ssize_t STICKY_PARTITION = STICKY
cdef Py_ssize_t NO_PARTITION = UNKNOWN


@cython.final
cdef class OpenBuilders:
    """See ``routes.OpenBuilders``."""

    cdef public Py_ssize_t sticky
    cdef public list partitions

    def __init__(self):
        self.sticky = -1
        self.partitions = []


@cython.final
cdef class Routes:
    """See ``routes.Routes``."""

    cdef public bint ignore_keys
    cdef public bint is_open
    cdef readonly dict topics
    cdef public RecordsBuilder last
    cdef public Py_ssize_t came

    def __init__(self, *, ignore_keys=False):
        self.ignore_keys = ignore_keys
        self.is_open = True
        self.topics = {}

    def append(self, token, int64_t sent_ns, timestamp_ms, topic, value, key, partition):
        cdef RecordsBuilder builder = self.find(topic, value, key, partition)
        if builder is None:
            return 0
        if timestamp_ms is None:
            timestamp_ms = sent_ns // 1_000_000
        return builder.append(token, timestamp_ms, key, value, (), sent_ns)

    def append_entries(self, list entries not None, Py_ssize_t start, Py_ssize_t stop):
        cdef Py_ssize_t place
        if start < 0 or stop > len(entries) // FIELDS:
            raise IndexError("there are fewer entries")
        for place in range(start, stop):
            if not self.append_entry(entries, place * FIELDS):
                return place - start
        return max(0, stop - start)

    cdef Py_ssize_t append_entry(self, list entries, Py_ssize_t at) except -1:
        cdef RecordsBuilder builder
        cdef int64_t timestamp, sent
        cdef Py_ssize_t size
        cdef EntryToken token
        if not isinstance(entries[at], EntryToken):
            return 0
        token = entries[at]
        value, key, timestamp_ms = entries[at + 2], entries[at + 3], entries[at + 6]
        sent = time_of(entries[at + 7])
        timestamp = sent // 1_000_000 if timestamp_ms is None else time_of(timestamp_ms)
        if (
            entries[at + 5] is not None
            or sent < 0
            or timestamp < 0
            or token._state != "PENDING"
        ):
            return 0
        builder = self.find(entries[at + 1], value, key, entries[at + 4])
        if builder is None:
            return 0
        token._state = "RUNNING"
        size = builder.write(token, timestamp, key, value, NO_HEADERS, sent)
        if not size:
            token._state = "PENDING"
        return size

    cpdef bint takes(self, topic, value, key, partition) except -1:
        return (
            self.is_open
            and type(topic) is str
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
            and (partition is None or type(partition) is int)
            and topic in self.topics
        )

    cpdef RecordsBuilder find(self, topic, value, key, partition):
        cdef OpenBuilders builders
        if not self.takes(topic, value, key, partition):
            return None
        builders = self.topics[topic]
        return self.open_in(builders, self.route(builders, key, partition))

    cpdef Py_ssize_t route(self, OpenBuilders builders, bytes key, partition) except -3:
        cdef int64_t named = 0
        cdef int overflow = 0
        cdef const char* data = NULL
        cdef Py_ssize_t size = -1
        if partition is not None:
            named = PyLong_AsLongLongAndOverflow(partition, &overflow)
            if overflow:
                return NO_PARTITION
        elif key is not None and not self.ignore_keys:
            data, size = PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        return c_route(data, size, partition is not None, named, len(builders.partitions))

    cpdef RecordsBuilder open_in(self, OpenBuilders builders, Py_ssize_t number):
        if number == STICKY_PARTITION:
            number = builders.sticky
        if number < 0 or builders.partitions[number] is None:
            return None
        self.last = builders.partitions[number]
        return self.last


cdef inline object utf8(field):
    """See ``sending.utf8``."""
    if type(field) is str:
        try:
            return PyUnicode_AsUTF8String(field)
        except UnicodeEncodeError:
            pass
    return field


cdef inline int64_t time_of(number) except? -1:
    """A time as C has it; -1: it is none."""
    cdef int overflow = 0
    if type(number) is not int:
        return -1
    cdef int64_t time = PyLong_AsLongLongAndOverflow(number, &overflow)
    return -1 if overflow or time < 0 else time


cdef inline int64_t now_ns() noexcept:
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


@cython.final
cdef class FastPath:
    """See ``sending.PythonFastPath``."""

    cdef unsigned long thread
    cdef object is_running
    cdef object create_future
    cdef object begin
    cdef object wait
    cdef object clock
    cdef object wall_clock_ns
    cdef dict plain_future
    cdef Routes routes
    cdef object context_of
    cdef object skipped_in
    cdef Py_ssize_t to_skip
    cdef tuple headers
    cdef bytes tail

    def __init__(self):
        self.trace(None)

    def trace(self, context_of):
        self.context_of = context_of
        self.skipped_in = None
        self.to_skip = 0
        self.headers = ()
        self.tail = NO_HEADERS

    def skip(self, context, Py_ssize_t records, headers):
        cdef tuple pairs = tuple(headers)
        self.tail = header_bytes(pairs) if pairs else NO_HEADERS
        self.headers = pairs
        self.skipped_in = context
        self.to_skip = records

    def take_skipped(self, context):
        if self.to_skip <= 0 or self.skipped_in is not context:
            return None
        self.to_skip -= 1
        return self.headers

    cdef bint must_ask(self) noexcept:
        """True if it has to be decided whether the record is traced."""
        if self.to_skip <= 0:
            return True
        try:
            return self.context_of() is not self.skipped_in
        except Exception:
            return True

    def open(self, loop, Routes routes not None, begin, wait, clock, wall_clock_ns=time_ns):
        self.thread = PyThread_get_thread_ident()
        self.is_running = loop.is_running
        self.create_future = loop.create_future
        self.plain_future = {"loop": loop} if type(loop.create_future()) is FUTURE else None
        self.routes = routes
        self.begin = begin
        self.wait = wait
        self.clock = clock
        # A call of the system's clock by Python would cost more than all of it.
        self.wall_clock_ns = None if wall_clock_ns is time_ns else wall_clock_ns

    def close(self):
        self.thread = 0

    cpdef bint serves(self) except -1:
        return self.thread == PyThread_get_thread_ident() and self.is_running()

    def send(self, topic, value, key, partition):
        cdef OpenBuilders builders
        cdef RecordsBuilder builder
        cdef Py_ssize_t number
        cdef int64_t now
        if self.serves():
            if self.context_of is not None and self.must_ask():
                return None
            value, key = utf8(value), utf8(key)
            if self.routes.takes(topic, value, key, partition):
                builders = self.routes.topics[topic]
                number = self.routes.route(builders, key, partition)
                builder = self.routes.open_in(builders, number)
                future = self.new_future()
                now = self.now_ns()
                if (
                    builder is not None
                    and builder.write(future, now // 1_000_000, key, value, self.tail, now)
                ) or self.begins(number, topic, partition, key, value, future, now):
                    self.routes.came += 1
                    self.to_skip -= 1
                    return future
        return None

    cdef bint begins(
        self, Py_ssize_t number, topic, partition, key, value, future, int64_t sent_ns
    ) except -1:
        """True if the record has begun a batch, or waits; False: it takes the long way."""
        if self.begin is None or number == NO_PARTITION:
            return False
        time, now, tail = sent_ns // 1_000_000, self.clock(), self.headers
        if self.begin(number, topic, time, key, value, tail, future, sent_ns, now) is None:
            self.wait(topic, partition, time, key, value, tail, future, sent_ns, now)
        return True

    cdef int64_t now_ns(self) except -1:
        return now_ns() if self.wall_clock_ns is None else self.wall_clock_ns()

    cdef new_future(self):
        if self.plain_future is None:
            return self.create_future()
        future = PyObject_Call(FUTURE, (), self.plain_future)
        # The collector would visit each of thousands of futures, a quarter of all costs. A pending
        # future may be in a cycle with the task that awaits it; the producer breaks such cycles
        # before its loop ends. A done future holds metadata and its loop, which leads back to it
        # only through users' attributes. A failed future is shown to the collector again.
        untrack(future)
        return future

    def append(self, token, topic, value, key, partition):
        cdef RecordsBuilder builder
        cdef int64_t now
        cdef Py_ssize_t size
        if self.serves():
            value, key = utf8(value), utf8(key)
            builder = self.routes.find(topic, value, key, partition)
            if builder is not None:
                now = self.now_ns()
                size = builder.write(token, now // 1_000_000, key, value, NO_HEADERS, now)
                self.routes.came += size > 0
                return size
        return 0


# --- field_reader --------------------------------------------------------------------------------
# The compiled form of ``field_reader``: no function reads at ``end`` or behind it.

cdef enum Problem:
    ENDS_EARLY = 1
    NUMBER_TOO_LONG
    NUMBER_TOO_LARGE
    FIELD_TOO_LONG
    NO_HEADER_KEY
    HEADER_COUNT
    RECORD_TOO_LONG
    RECORD_TOO_SHORT
    OFFSET_ORDER


cdef struct Field:
    const char* at
    Py_ssize_t size  # -1: null


cdef struct Record:
    int64_t timestamp_delta
    int64_t offset_delta
    Field key
    Field value
    int64_t header_count
    const unsigned char* headers
    Problem problem
    int64_t number  # that the problem is about


cdef inline const unsigned char* read_number(
    const unsigned char* at, const unsigned char* end, int bits, int64_t* number, Problem* problem
) noexcept nogil:
    """A zigzag number of ``bits`` bits; the place behind it, or NULL and the problem."""
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef bint too_large = False
    cdef unsigned char byte
    while True:
        if at >= end:
            problem[0] = ENDS_EARLY
            return NULL
        byte = at[0]
        at += 1
        if shift == 63 and byte & 0x7E:
            too_large = True
        found |= <uint64_t>(byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= bits:
            problem[0] = NUMBER_TOO_LONG
            return NULL
    if too_large or (bits == 32 and found >> 32):
        problem[0] = NUMBER_TOO_LARGE
        return NULL
    number[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
    return at


cdef inline const unsigned char* read_varint(
    const unsigned char* at, const unsigned char* end, int64_t* number, Problem* problem
) noexcept nogil:
    cdef unsigned char byte
    if at < end and at[0] < 0x80:
        byte = at[0]
        number[0] = <int64_t>(byte >> 1) ^ -<int64_t>(byte & 1)
        return at + 1
    return read_number(at, end, 32, number, problem)


cdef inline const unsigned char* read_field(
    const unsigned char* at, const unsigned char* end, Field* field, Problem* problem
) noexcept nogil:
    cdef int64_t size = 0
    at = read_varint(at, end, &size, problem)
    if at is NULL:
        return NULL
    if size < 0:
        field.at = NULL
        field.size = -1
        return at
    if size > end - at:
        problem[0] = FIELD_TOO_LONG
        return NULL
    field.at = <const char*>at
    field.size = size
    return at + size


cdef inline const unsigned char* read_header(
    const unsigned char* at, const unsigned char* end, Field* key, Field* value, Problem* problem
) noexcept nogil:
    at = read_field(at, end, key, problem)
    if at is NULL:
        return NULL
    if key.size < 0:
        problem[0] = NO_HEADER_KEY
        return NULL
    return read_field(at, end, value, problem)


cdef inline const unsigned char* read_record(
    const unsigned char* at,
    const unsigned char* end,
    int64_t last_delta,
    int64_t most_delta,
    Record* record,
) noexcept nogil:
    """The fields of the record at ``at`` but for the headers; the headers' place and its end.

    Returns the end of the record, or NULL and the problem.
    """
    cdef int64_t length = 0
    cdef Problem* problem = &record.problem
    at = read_varint(at, end, &length, problem)
    if at is NULL:
        return NULL
    if length < 0 or length > end - at:
        problem[0] = RECORD_TOO_LONG
        return NULL
    end = at + length
    if at >= end:
        problem[0] = ENDS_EARLY
        return NULL
    at = read_number(at + 1, end, 64, &record.timestamp_delta, problem)
    if at is NULL:
        return NULL
    at = read_varint(at, end, &record.offset_delta, problem)
    if at is NULL:
        return NULL
    if not last_delta < record.offset_delta <= most_delta:
        problem[0] = OFFSET_ORDER
        record.number = record.offset_delta
        return NULL
    at = read_field(at, end, &record.key, problem)
    if at is NULL:
        return NULL
    at = read_field(at, end, &record.value, problem)
    if at is NULL:
        return NULL
    at = read_varint(at, end, &record.header_count, problem)
    if at is NULL:
        return NULL
    if not 0 <= record.header_count <= (end - at) // 2:
        problem[0] = HEADER_COUNT
        record.number = record.header_count
        return NULL
    record.headers = at
    if not record.header_count and at != end:
        problem[0] = RECORD_TOO_SHORT
        return NULL
    return end


# --- parsed_records ------------------------------------------------------------------------------
# The compiled form of ``parsed_records``. The bytes are parsed when the object is made, and once
# more for every iteration: keeping the places of all fields would take more memory than the
# records. Both times every length is checked, because the bytes may be in a buffer that has
# changed meanwhile.

# The sums over the records that are kept: a column of Arrow needs as many bytes.
cdef struct Sizes:
    Py_ssize_t keys
    Py_ssize_t values
    Py_ssize_t headers
    Py_ssize_t header_keys
    Py_ssize_t header_values
    bint null_keys
    bint null_values
    bint null_header_values
    bint unusual_keys  # a header has a key that is not plain ASCII


cdef type RECORD = ConsumerRecord
if ConsumerRecord._fields != (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
):
    raise ImportError("ConsumerRecord has other fields than this module fills")

cdef Py_ssize_t FEW_BYTES = 16 * 1024  # parsed faster than the interpreter lock is released
cdef array INDEX = array("q")


# The collector would drop the buffer's owner without releasing the buffer. No cycle leads through
# these attributes.
@cython.final
@cython.no_gc
cdef class ParsedRecords:
    """See ``parsed_records.ParsedRecords``."""

    cdef Py_buffer data
    cdef const unsigned char* first  # the first record that is kept
    cdef const unsigned char* end
    cdef Py_ssize_t count
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint has_append_time
    cdef int64_t most_delta
    cdef int32_t partition_number
    cdef Sizes sizes
    cdef object topic
    cdef object partition
    cdef object timestamp_type
    cdef object leader_epoch
    cdef array index


    cdef inline int64_t timestamp(self, const Record* record) noexcept:
        if self.has_append_time:
            return self.append_time
        return <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>record.timestamp_delta)

    cdef inline int64_t offset(self, const Record* record) noexcept:
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.offset_delta)

    def __cinit__(self, batch, data, from_offset, until_offset=None):
        self.topic, self.partition = batch.where
        self.partition_number = self.partition
        self.timestamp_type = batch.timestamp_type
        self.leader_epoch = batch.leader_epoch
        self.base_offset = batch.base_offset
        self.base_timestamp = batch.base_timestamp_ms
        self.append_time = batch.max_timestamp_ms
        self.has_append_time = self.timestamp_type == "LogAppendTime"
        self.most_delta = batch.last_offset_delta
        cdef int64_t claimed = batch.record_count
        cdef int64_t first_delta = max(0, min(from_offset - batch.base_offset, 2**31))
        cdef int64_t end_delta = 2**31
        if until_offset is not None:
            end_delta = max(0, min(until_offset - batch.base_offset, 2**31))
        cdef Record record
        cdef bint valid
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.first = <const unsigned char*>self.data.buf
        self.end = self.first + self.data.len
        if self.data.len > FEW_BYTES:
            with nogil:
                valid = self.parse(claimed, first_delta, end_delta, &record)
        else:
            valid = self.parse(claimed, first_delta, end_delta, &record)
        if not valid:
            raise self.malformed(&record, claimed)

    def __dealloc__(self):
        PyBuffer_Release(&self.data)

    cdef bint parse(
        self, int64_t claimed, int64_t first_delta, int64_t end_delta, Record* record
    ) noexcept nogil:
        """Find the records to keep. False: ``record`` has the problem, or there are bytes left."""
        cdef const unsigned char* at = self.first
        cdef const unsigned char* behind
        cdef int64_t last_delta = -1
        cdef int64_t number
        record.problem = <Problem>0
        for number in range(claimed):
            behind = read_record(at, self.end, last_delta, self.most_delta, record)
            if behind is NULL:
                return False
            last_delta = record.offset_delta
            if last_delta < first_delta or last_delta >= end_delta:
                if not check_headers(record, behind, NULL):
                    return False
                if not self.count:
                    self.first = behind
            else:
                if not check_headers(record, behind, &self.sizes):
                    return False
                self.count += 1
                if record.key.size < 0:
                    self.sizes.null_keys = True
                else:
                    self.sizes.keys += record.key.size
                if record.value.size < 0:
                    self.sizes.null_values = True
                else:
                    self.sizes.values += record.value.size
            at = behind
        return not claimed or at == self.end

    cdef object malformed(self, Record* record, int64_t claimed):
        """The error as the reference words it."""
        cdef Problem problem = record.problem
        if problem == ENDS_EARLY:
            return MalformedRecordError("a record ends in the middle of a field")
        if problem == NUMBER_TOO_LONG:
            return MalformedRecordError("a number is too long")
        if problem == NUMBER_TOO_LARGE:
            return MalformedRecordError("a number is too large")
        if problem == FIELD_TOO_LONG:
            return MalformedRecordError("a field is longer than its record")
        if problem == NO_HEADER_KEY:
            return MalformedRecordError("a header has no key")
        if problem == HEADER_COUNT:
            return MalformedRecordError(f"a record can't have {record.number} headers")
        if problem == RECORD_TOO_LONG:
            return MalformedRecordError("a record is longer than its batch")
        if problem == RECORD_TOO_SHORT:
            return MalformedRecordError("a record is shorter than its length")
        if problem == OFFSET_ORDER:
            offset = int(self.base_offset) + int(record.number)
            return MalformedRecordError(f"offset {offset} is out of order")
        return MalformedRecordError(f"there are bytes behind its {claimed} records")

    def __len__(self):
        return self.count

    def __iter__(self):
        return RecordIterator(self)

    def __getitem__(self, Py_ssize_t index):
        if index < 0:
            index += self.count
        if not 0 <= index < self.count:
            raise IndexError(f"there are {self.count} records, and no record {index}")
        cdef RecordIterator records = RecordIterator(self)
        if index:
            if self.index is None:
                self.index = self.places()
            records.at = <const unsigned char*>self.data.buf + self.index.data.as_longlongs[index]
        return next(records)

    cdef array places(self):
        """The place of each record in the bytes."""
        cdef array places = clone(INDEX, self.count, False)
        cdef const unsigned char* at = self.first
        cdef Record record
        cdef Py_ssize_t number
        for number in range(self.count):
            places.data.as_longlongs[number] = at - <const unsigned char*>self.data.buf
            at = self.next_record(at, &record)
        return places

    cdef const unsigned char* next_record(
        self, const unsigned char* at, Record* record
    ) except NULL:
        """The fields at ``at``, and the place behind them. The headers were checked before."""
        at = read_record(at, self.end, -1, self.most_delta, record)
        if at is NULL:
            raise changed()
        return at


cdef object changed():
    return RuntimeError("the bytes of the batch have changed since it was decoded")


cdef bint check_headers(Record* record, const unsigned char* end, Sizes* sizes) noexcept nogil:
    """False: ``record`` has the problem of its headers. ``sizes`` gets their sizes, if given."""
    cdef const unsigned char* at = record.headers
    cdef Field key, value
    cdef int64_t number
    cdef Py_ssize_t place
    if not record.header_count:
        return True
    for number in range(record.header_count):
        at = read_header(at, end, &key, &value, &record.problem)
        if at is NULL:
            return False
        if sizes is NULL:
            continue
        sizes.header_keys += key.size
        if value.size < 0:
            sizes.null_header_values = True
        else:
            sizes.header_values += value.size
        for place in range(key.size):
            if key.at[place] & 0x80:
                sizes.unusual_keys = True
                break
    if at != end:
        record.problem = RECORD_TOO_SHORT
        return False
    if sizes is not NULL:
        sizes.headers += record.header_count
    return True


cdef inline object field_object(const Field* field):
    return None if field.size < 0 else PyBytes_FromStringAndSize(field.at, field.size)


cdef tuple headers_object(const Record* record, const unsigned char* end):
    cdef const unsigned char* at = record.headers
    cdef Field key, value
    cdef Problem problem
    cdef int64_t number
    cdef tuple headers = PyTuple_New(record.header_count)
    for number in range(record.header_count):
        at = read_header(at, end, &key, &value, &problem)
        if at is NULL:
            raise changed()
        header = (PyUnicode_DecodeUTF8(key.at, key.size, "replace"), field_object(&value))
        put(headers, number, header)
    return headers



@cython.final
cdef class RecordIterator:
    """The objects of records, one after another."""

    cdef ParsedRecords records
    cdef const unsigned char* at
    cdef Py_ssize_t left
    cdef int64_t timestamp_ms
    cdef object timestamp

    def __cinit__(self, ParsedRecords records not None):
        self.records = records
        self.at = records.first
        self.left = records.count

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.left

    def __next__(self):
        cdef ParsedRecords records = self.records
        cdef Record record
        cdef const unsigned char* behind
        cdef int64_t timestamp_ms
        if not self.left:
            raise StopIteration
        behind = records.next_record(self.at, &record)
        timestamp_ms = records.timestamp(&record)
        if self.timestamp is None or timestamp_ms != self.timestamp_ms:
            self.timestamp = timestamp_ms
            self.timestamp_ms = timestamp_ms
        offset = records.offset(&record)
        key = field_object(&record.key)
        value = field_object(&record.value)
        headers = headers_object(&record, behind) if record.header_count else ()
        made = new_tuple(RECORD, 9)
        put(made, 0, records.topic)
        put(made, 1, records.partition)
        put(made, 2, offset)
        put(made, 3, self.timestamp)
        put(made, 4, records.timestamp_type)
        put(made, 5, key)
        put(made, 6, value)
        put(made, 7, headers)
        put(made, 8, records.leader_epoch)
        untrack(made)
        self.at = behind
        self.left -= 1
        return made


# --- parsed_records: arrow_buffers() -------------------------------------------------------------
# The compiled form of ``parsed_records.arrow_buffers``. The buffers are as large as the records were
# when they were parsed. If their bytes have changed since, nothing is written behind a buffer.

cdef int64_t NO_TIME = NO_TIMESTAMP
cdef Py_ssize_t MOST_BYTES = 2**31 - 1


@cython.final
cdef class Binary:
    """The buffers of a column of bytes, while it is filled."""

    cdef bytes validity
    cdef bytes offsets
    cdef bytes data
    cdef Py_ssize_t rows
    cdef Py_ssize_t row
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t size, bint has_nulls):
        if size > MOST_BYTES or rows > MOST_BYTES:
            raise OverflowError(COLUMN_TOO_LARGE)
        self.rows = rows
        self.offsets = PyBytes_FromStringAndSize(NULL, 4 * (rows + 1))
        (<int32_t*>PyBytes_AS_STRING(self.offsets))[0] = 0
        self.data = PyBytes_FromStringAndSize(NULL, size)
        if has_nulls:
            self.validity = empty_bits(rows)

    cdef inline int add(self, const Field* field) except -1:
        cdef Py_ssize_t row = self.row
        cdef Py_ssize_t size = field.size
        if row >= self.rows:
            raise changed()
        if size >= 0:
            if size > len(self.data) - self.size:
                raise changed()
            memcpy(PyBytes_AS_STRING(self.data) + self.size, field.at, size)
            self.size += size
            if self.validity is not None:
                set_bit(self.validity, row)
        elif self.validity is None:
            raise changed()
        self.row = row + 1
        (<int32_t*>PyBytes_AS_STRING(self.offsets))[row + 1] = <int32_t>self.size
        return 0

    cdef object buffers(self):
        if self.row != self.rows or self.size != len(self.data):
            raise changed()
        return BinaryBuffers(self.validity, self.offsets, self.data)


cdef bytes empty_bits(Py_ssize_t rows):
    cdef bytes bits = PyBytes_FromStringAndSize(NULL, (rows + 7) // 8)
    memset(PyBytes_AS_STRING(bits), 0, len(bits))
    return bits


cdef inline void set_bit(bytes bits, Py_ssize_t row) noexcept:
    PyBytes_AS_STRING(bits)[row >> 3] |= <char>(1 << (row & 7))


@cython.final
cdef class Columns:
    """All columns, while they are filled."""

    cdef Py_ssize_t rows
    cdef Py_ssize_t row
    cdef Sizes sizes
    cdef Binary keys
    cdef Binary values
    cdef Binary header_keys
    cdef Binary header_values
    cdef Py_ssize_t item
    cdef bytes header_offsets
    cdef bytes timestamps
    cdef bytes timestamp_bits
    cdef bytes partitions
    cdef bytes offsets
    cdef bint has_null_timestamps

    def __cinit__(self, list parts not None):
        cdef Sizes* sizes = &self.sizes
        cdef ParsedRecords part
        for part in parts:
            self.rows += part.count
            sizes.keys += part.sizes.keys
            sizes.values += part.sizes.values
            sizes.headers += part.sizes.headers
            sizes.header_keys += part.sizes.header_keys
            sizes.header_values += part.sizes.header_values
            sizes.null_keys |= part.sizes.null_keys
            sizes.null_values |= part.sizes.null_values
            sizes.null_header_values |= part.sizes.null_header_values
            sizes.unusual_keys |= part.sizes.unusual_keys
        self.keys = Binary(self.rows, sizes.keys, sizes.null_keys)
        self.values = Binary(self.rows, sizes.values, sizes.null_values)
        self.header_values = Binary(
            sizes.headers, sizes.header_values, sizes.null_header_values
        )
        self.header_keys = Binary(
            sizes.headers,
            utf8_size(parts) if sizes.unusual_keys else sizes.header_keys,
            False,
        )
        self.header_offsets = PyBytes_FromStringAndSize(NULL, 4 * (self.rows + 1))
        (<int32_t*>PyBytes_AS_STRING(self.header_offsets))[0] = 0
        self.timestamps = PyBytes_FromStringAndSize(NULL, 8 * self.rows)
        self.timestamp_bits = empty_bits(self.rows)
        self.partitions = PyBytes_FromStringAndSize(NULL, 4 * self.rows)
        self.offsets = PyBytes_FromStringAndSize(NULL, 8 * self.rows)

    cdef int add(self, ParsedRecords part) except -1:
        cdef const unsigned char* at = part.first
        cdef const unsigned char* behind
        cdef int32_t* header_ends = <int32_t*>PyBytes_AS_STRING(self.header_offsets) + 1
        cdef int64_t* timestamps = <int64_t*>PyBytes_AS_STRING(self.timestamps)
        cdef int32_t* partitions = <int32_t*>PyBytes_AS_STRING(self.partitions)
        cdef int64_t* offsets = <int64_t*>PyBytes_AS_STRING(self.offsets)
        cdef Py_ssize_t row = self.row
        cdef Py_ssize_t stop = row + part.count
        cdef int64_t timestamp
        cdef Record record
        if stop > self.rows:
            raise changed()
        for row in range(row, stop):
            behind = part.next_record(at, &record)
            self.keys.add(&record.key)
            self.values.add(&record.value)
            if record.header_count:
                self.add_headers(&record, behind)
            header_ends[row] = <int32_t>self.item
            timestamp = part.timestamp(&record)
            timestamps[row] = timestamp
            if timestamp == NO_TIME:
                self.has_null_timestamps = True
            else:
                set_bit(self.timestamp_bits, row)
            partitions[row] = part.partition_number
            offsets[row] = part.offset(&record)
            at = behind
        self.row = stop
        return 0

    cdef int add_headers(self, Record* record, const unsigned char* end) except -1:
        cdef const unsigned char* at = record.headers
        cdef Field key, value
        cdef Problem problem
        cdef int64_t number
        cdef bytes text
        for number in range(record.header_count):
            at = read_header(at, end, &key, &value, &problem)
            if at is NULL:
                raise changed()
            if self.sizes.unusual_keys:
                text = utf8_of(&key)
                key.at = PyBytes_AS_STRING(text)
                key.size = len(text)
            self.header_keys.add(&key)
            self.header_values.add(&value)
        self.item += record.header_count
        return 0

    cdef object buffers(self):
        if self.row != self.rows or self.item != self.sizes.headers:
            raise changed()
        return ArrowBuffers(
            self.rows,
            self.keys.buffers(),
            self.values.buffers(),
            self.header_offsets,
            self.item,
            self.header_keys.buffers(),
            self.header_values.buffers(),
            self.timestamp_bits if self.has_null_timestamps else None,
            self.timestamps,
            self.partitions,
            self.offsets,
        )


cdef bytes utf8_of(const Field* key):
    """The key of a header, bytes that are not UTF-8 replaced."""
    return PyUnicode_DecodeUTF8(key.at, key.size, "replace").encode()


cdef Py_ssize_t utf8_size(list parts) except -1:
    """The size of the keys of all headers, if some are not plain ASCII."""
    cdef ParsedRecords part
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t number
    cdef int64_t item
    cdef const unsigned char* at
    cdef const unsigned char* behind
    cdef Record record
    cdef Field key, value
    cdef Problem problem
    for part in parts:
        behind = part.first
        for number in range(part.count):
            behind = part.next_record(behind, &record)
            at = record.headers
            for item in range(record.header_count):
                at = read_header(at, behind, &key, &value, &problem)
                if at is NULL:
                    raise changed()
                size += len(utf8_of(&key))
    return size


def arrow_buffers(parts):
    """See ``parsed_records.arrow_buffers``."""
    cdef list all_parts = list(parts)
    cdef Columns columns = Columns(all_parts)
    cdef ParsedRecords part
    for part in all_parts:
        columns.add(part)
    return columns.buffers()
