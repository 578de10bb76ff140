cimport cython

from aioproducer.engine.accumulator.producer_batch cimport BatchGrowth
from aioproducer.engine.accumulator.batch_queue cimport BatchQueue
from aioproducer.engine.accumulator.buffer_pool cimport BufferPool
from aioproducer.engine.accumulator.results cimport Flushes
from aioproducer.engine.accumulator.results cimport LateResults
from aioproducer.engine.accumulator.memory_quota cimport MemoryQuota
from aioproducer.engine.accumulator.partition cimport Backlogs, Partition
from aioproducer.engine.accumulator.batch_queue cimport PendingQueue
from aioproducer.engine.accumulator.pending_records cimport PendingRecord, PendingRecords, SerializedRecord
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch
from aioproducer.engine.accumulator.producer_batch cimport BatchSizes
from aioproducer.engine.accumulator.topic cimport Topic


cdef class RecordAccumulator:
    cdef public bint closing
    cdef public object topic_outcomes
    cdef public object routes
    cdef public bint _ignore_keys
    cdef public bint _one_record_each
    cdef public object _wake
    cdef public object _partitioner
    cdef public dict _topics
    cdef public BatchSizes _sizes
    cdef public BufferPool _pool
    cdef public PendingRecords _records
    cdef public Flushes _flushes
    cdef public MemoryQuota _memory_quota
    cdef public Backlogs _backlogs
    cdef public BatchQueue batches
    cdef public LateResults late_results
    cdef public PendingQueue pending
    cdef public object waiters
    cdef public object _sticky

    @cython.locals(topic=Topic)
    cpdef bint append(self, SerializedRecord record, double now) except -1
    @cython.locals(batch=ProducerBatch, partition=Partition)
    cpdef ProducerBatch _find_batch(
        self, Topic topic, Py_ssize_t number, SerializedRecord record, double now
    )
    @cython.locals(batch=ProducerBatch, partition=Partition)
    cpdef ProducerBatch _append_sticky(self, Topic topic, SerializedRecord record, double now)
    @cython.locals(batch=ProducerBatch, needed=Py_ssize_t, size=Py_ssize_t, quota=MemoryQuota)
    cpdef ProducerBatch _open_batch(
        self, Partition partition, BatchGrowth growth, SerializedRecord record, double now
    )
    @cython.locals(value=SerializedRecord, batch=ProducerBatch)
    cpdef _place(self, Topic topic, PendingRecord record, double now)
