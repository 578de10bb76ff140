cimport cython
from aioproducer.engine.accumulator.memory_quota cimport MemoryQuota
from aioproducer.engine.accumulator.partition cimport Backlog, Backlogs, Partition
from aioproducer.engine.accumulator.partition cimport Partition
from aioproducer.engine.accumulator.pending_records cimport PendingRecord, PendingRecords
from aioproducer.engine.accumulator.producer_batch cimport BatchGrowth
from aioproducer.engine.accumulator.producer_batch cimport BatchSizes
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch
from aioproducer.engine.accumulator.results cimport Flushes
from aioproducer.engine.accumulator.topic cimport Topic

cdef class BatchQueue
cdef class PendingQueue


cdef class BatchQueue:
    cdef public Backlogs backlogs
    cdef public double delivery_timeout
    cdef public Py_ssize_t max_request_size
    cdef public object _settings
    cdef public dict _topics
    cdef public MemoryQuota _memory_quota
    cdef public Flushes _flushes
    cdef public BatchSizes _sizes
    cdef public dict _batches
    cdef public double next_expiry
    cdef public bint _closing

    @cython.locals(batch=ProducerBatch, deadline=double)
    cpdef ProducerBatch open(
        self,
        Partition partition,
        bytearray buffer,
        BatchGrowth growth,
        double now,
        double sent,
    )
    @cython.locals(fair=Py_ssize_t)
    cpdef Py_ssize_t next_size(
        self, Partition partition, topic, BatchGrowth growth, Py_ssize_t least
    ) except? -1
    cpdef double leaves_at(self, Backlog backlog, Py_ssize_t in_flight, double now) except? -1
    cpdef bint may_gather(self, Backlog backlog, double now) except -1
    cpdef bint _is_urgent(self, Backlog backlog, double now) except -1
    @cython.locals(backlog=Backlog, capacity=Py_ssize_t, short=bint)
    cpdef filled(self, ProducerBatch batch)
    cpdef overflowed(self, ProducerBatch batch)
    @cython.locals(partition=Partition, topic=Topic, buffer=bytearray)
    cpdef complete(self, ProducerBatch batch, double now)


cdef class PendingQueue:
    cdef public bint _one_record_each
    cdef public BatchSizes _sizes
    cdef public PendingRecords _records
    cdef public BatchQueue _batches
    cdef public MemoryQuota _memory_quota
    cdef public Flushes _flushes
    cdef public object _wake
    cdef public object _on_failed
    cdef public dict preparation_errors
    cdef public list waits
    cdef public list refused

    cpdef let_wait(self, PendingRecord record, Partition partition, double now)
    @cython.locals(partition=Partition, record=PendingRecord, batch=ProducerBatch)
    cpdef bint _fill(self, grant, double now) except -1
    @cython.locals(record=PendingRecord)
    cpdef PendingRecord _first_pending(self, Partition partition)
    cpdef joined(self, PendingRecord record, ProducerBatch batch, double now)
    cpdef settle(self, PendingRecord record, ProducerBatch batch=*)
