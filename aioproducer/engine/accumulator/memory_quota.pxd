from aioproducer.engine.accumulator.buffer_pool cimport BufferPool, NodeQuota
from aioproducer.engine.accumulator.partition cimport Partition
from aioproducer.engine.accumulator.pending_records cimport PendingRecords

cdef class MemoryQuota


cdef class MemoryQuota:
    cdef public BufferPool _pool
    cdef public PendingRecords _pending
    cdef public Py_ssize_t _batch_size
    cdef public object _needed
    cdef public NodeQuota futures
    cdef public object _quotas
    cdef public dict _led
    cdef public dict _silent_since
    cdef public Py_ssize_t _largest
    cdef public Py_ssize_t _holders
    cdef public Py_ssize_t _most_holders
    cdef public double _recounted
    cdef public dict _waiting
    cdef public object _collecting
    cdef public object moves
    cdef public set _awaited
    cdef public object _ticket

    cpdef record_came(self, node, double now)
    cpdef release(self, Partition partition, bytearray buffer)
    cpdef delivered(self, Partition partition, double now)
    cpdef count_futures(self, Partition partition, Py_ssize_t futures)
