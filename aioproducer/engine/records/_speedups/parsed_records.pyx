# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``parsed_records``.

The bytes are parsed when the object is made, and once more for every iteration: keeping the places
of all fields would take more memory than the records. Both times every length is checked, because
the bytes may be in a buffer that has changed meanwhile.
"""

cimport cython
from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t

from aioproducer.engine.records._speedups.cpython_internals cimport new_tuple, untrack
from aioproducer.engine.records._speedups.field_reader cimport (
    ENDS_EARLY,
    FIELD_TOO_LONG,
    HEADER_COUNT,
    NO_HEADER_KEY,
    NUMBER_TOO_LARGE,
    NUMBER_TOO_LONG,
    OFFSET_ORDER,
    RECORD_TOO_LONG,
    RECORD_TOO_SHORT,
    Field,
    Problem,
    Record,
    read_header,
    read_record,
)

from aioproducer.model import ConsumerRecord
from aioproducer.engine.records.field_reader import MalformedRecordError

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
@cython.no_gc
cdef class ParsedRecords:
    """See ``parsed_records.ParsedRecords``."""

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


cdef inline void put(made, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, place, field)


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
