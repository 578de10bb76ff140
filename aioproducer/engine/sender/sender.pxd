cimport cython

from aioproducer.engine.accumulator.batch_queue cimport BatchQueue as CQueue
from aioproducer.engine.accumulator.late_results cimport LateResults as CResults
from aioproducer.engine.accumulator.pending_queue cimport PendingQueue as CPending
from aioproducer.engine.accumulator.record_accumulator cimport RecordAccumulator as CAccumulator
from aioproducer.engine.client.wakeup cimport Wakeup as CWakeup
from aioproducer.engine.network.in_flight cimport Completion as CCompletion
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
    cdef public object _refresher
    cdef public object _requesters
    cdef public CBatchSender _batch_sender
    cdef public object _metrics
    cdef public CWakeup _wakeup
    cdef public dict _requester_of
    cdef public bint _is_busy
    cdef public object _whole_at
    cdef public bint _others_quiet
    cdef public object _late_at

    cpdef _usual_round(self, double now)
    cpdef _next_round(self, batches_due)
    @cython.locals(completion=CCompletion, only_batches=bint)
    cpdef bint _take_completed(self, double now) except -1
    @cython.locals(only_batches=bint)
    cpdef take_response(self, double now)
