"""The compiled form of ``partitioning.murmur2_partition`` and ``partitioning.route``."""

from libc.stdint cimport int64_t, uint32_t



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


cdef inline Py_ssize_t route(
    const char* key, Py_ssize_t size, bint named, int64_t partition, Py_ssize_t count
) noexcept:
    """``size`` -1: there is no key, or it is ignored. ``named``: the record names ``partition``."""
    if named:
        return partition if 0 <= partition < count else -2
    if size < 0:
        return -1
    return (murmur2(key, size) & 0x7FFFFFFF) % <uint32_t>count if count else -2
