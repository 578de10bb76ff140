cimport cython

from aioproducer.engine.accumulator.batch_queue cimport BatchQueue as CQueue
from aioproducer.engine.accumulator.results cimport LateResults as CResults
from aioproducer.engine.accumulator.batch_queue cimport PendingQueue as CPending
from aioproducer.engine.accumulator.record_accumulator cimport RecordAccumulator as CAccumulator
from aioproducer.engine.client.wakeup cimport Wakeup as CWakeup
from aioproducer.engine.network.frames cimport Completion as CCompletion
from aioproducer.engine.sender.batch_sender cimport BatchSender as CBatchSender
from aioproducer.engine.sender.completer cimport BatchCompleter as CCompleter


cdef class Sender:
    cdef public CAccumulator _accumulator
    cdef public CQueue _batches
    cdef public CResults _late_results
    cdef public CPending _pending
    cdef public object _waiters
    cdef public object _client
    cdef public CCompleter _completer
    cdef public object _expiry
    cdef public object _pending_failures
    cdef public tuple _parts
    cdef public CBatchSender _batch_sender
    cdef public object _metrics
    cdef public CWakeup _wakeup
    cdef public dict _part_of
    cdef public bint _is_busy
    cdef public double _memory_due
    cdef public object _batches_due
    cdef public object _late_at
    cdef public object _log

    @cython.locals(accumulator=CAccumulator, closing=bint)
    cpdef _round(self, double now)
    @cython.locals(due=double)
    cpdef _next_round(self, double now)
    @cython.locals(accumulator=CAccumulator)
    cpdef bint _is_due(self, double now) except -1
    @cython.locals(completion=CCompletion)
    cpdef _take_completed(self, double now)
    cpdef take_response(self, double now)
