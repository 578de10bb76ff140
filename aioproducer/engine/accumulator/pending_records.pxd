cdef class SerializedRecord:
    cdef public object topic
    cdef public object partition
    cdef public object timestamp_ms
    cdef public object key
    cdef public object value
    cdef public object headers
    cdef public object token
    cdef public object sent_ns


cdef class PendingRecord:
    cdef public SerializedRecord record
    cdef public object caller
    cdef public Py_ssize_t size
    cdef public double sent
    cdef public double deadline
    cdef public bint awaits_metadata
    cdef public object generation
    cdef public object node
    cdef public object serialize
    cdef public bint settled
    cdef public object on_cancel


cdef class TopicQueues:
    cdef public dict _queues

    cpdef add(self, PendingRecord record)
    cpdef remove(self, PendingRecord record)


cdef class PendingRecords:
    cdef public Py_ssize_t capacity
    cdef public object quota
    cdef public object _pool
    cdef public object _keep
    cdef public Py_ssize_t _borrowed
    cdef public object _records
    cdef public TopicQueues awaiting_metadata
    cdef public TopicQueues unserialized

    cpdef move(self, PendingRecord record, node)
    cpdef remove(self, PendingRecord record)
