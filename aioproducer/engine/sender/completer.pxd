cimport cython

from aioproducer.engine.accumulator.batch_queue cimport BatchQueue as CQueue
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch as CBatch
from aioproducer.engine.accumulator.results cimport LateResults as CResults
from aioproducer.engine.network.frames cimport Completion as CCompletion
from aioproducer.engine.sender.delivery_reports cimport DeliveryReports as CReports
from aioproducer.engine.sender.produce cimport ProduceRequest as CRequest


cdef class BatchCompleter:
    cdef public CQueue _batches
    cdef public CResults _late_results
    cdef public object _pending
    cdef public object _topic_outcomes
    cdef public object _metadata
    cdef public object _gaps
    cdef public object _pending_failures
    cdef public CReports _reports
    cdef public object _compressor
    cdef public object _refresher
    cdef public object _backoff
    cdef public object _retries
    cdef public object _transactions

    @cython.locals(batch=CBatch)
    cpdef take(self, CRequest request, CCompletion completion, double now)
    @cython.locals(late=CResults, count=Py_ssize_t)
    cpdef deliver(
        self, CBatch batch, base_offset, log_append_time_ms, log_start_offset, double now
    )
