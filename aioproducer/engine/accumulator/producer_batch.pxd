cdef class BatchGrowth
cdef class BatchSizes
cdef class ProducerBatch


cdef class BatchGrowth:
    cdef public int doublings

    cpdef filled(self, Py_ssize_t records, int most, bint short)
    cpdef left(self, Py_ssize_t size, Py_ssize_t capacity)


cdef class BatchSizes:
    cdef public object _settings
    cdef public object _expansion
    cdef public dict _limits
    cdef public Py_ssize_t most

    cpdef full(self, topic, BatchGrowth growth)
    cpdef filled(self, BatchGrowth growth, Py_ssize_t records, bint short)


cdef class ProducerBatch:
    cdef public object topic_partition
    cdef public bytearray buffer
    cdef public object builder
    cdef public double created
    cdef public double deadline
    cdef public int attempts
    cdef public object last_error
    cdef public bint uncertain
    cdef public object order
    cdef public object order_share
    cdef public bint is_part
    cdef public bint split_in_doubt
    cdef public object state
    cdef public object compressed
    cdef public Py_ssize_t futures
    cdef public bint done
    cdef public bint delivered
    cdef public object base_offset
    cdef public object generation
    cdef public object partition
    cdef public BatchGrowth growth
    cdef public object node
    cdef public bint in_request
    cdef public bint lent

    cpdef bint append(self, record) except -1
    cpdef encode(self, compression)
    cpdef is_delivered(self, base_offset)
    cpdef deliver(self, base_offset, log_append_time_ms, log_start_offset=*)
    cpdef bytearray release(self)
