cimport cython

from aioproducer.engine.accumulator.batch_queue cimport BatchQueue
from aioproducer.engine.accumulator.flushes cimport Flushes
from aioproducer.engine.accumulator.memory_quota cimport MemoryQuota
from aioproducer.engine.accumulator.partition cimport Partition
from aioproducer.engine.accumulator.pending_records cimport PendingRecord, PendingRecords
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch
from aioproducer.engine.accumulator.settings cimport BatchSizes


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
