"""The compiled form of ``field_reader``: no function reads at ``end`` or behind it."""

from libc.stdint cimport int32_t, int64_t, uint64_t

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
