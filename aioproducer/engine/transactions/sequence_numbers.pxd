cimport cython


cdef class _Numbers:
    cdef public long long producer_id
    cdef public int epoch
    cdef public long long sequence


cdef class SequenceNumbers:
    cdef public object state
    cdef public bint usable
    cdef public bint transactional
    cdef public object on_need
    cdef public long long _producer_id
    cdef public int _epoch
    cdef public dict _numbers
    cdef public set former

    @cython.locals(numbers=_Numbers, sequence="long long")
    cpdef stamp(self, topic_partition, long long count)
    @cython.locals(numbers=_Numbers)
    cpdef renew(self, topic_partition)
