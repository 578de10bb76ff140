"""The compiled form of ``varint``, and fields with their size before them."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy


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
