# The types of the accumulator have names of their own here: the module imports the classes from its
# front, and a name has one meaning in a module.
cimport cython

from aioproducer.engine.accumulator.batch_queue cimport BatchQueue as Batches
from aioproducer.engine.accumulator.partition cimport Backlog as CBacklog, Backlogs
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch as CBatch
from aioproducer.engine.metrics.producer_metrics cimport ProducerMetrics as CMetrics
from aioproducer.engine.transactions.sequence_numbers cimport SequenceNumbers as CNumbers


cdef class BatchSender:
    cdef public Batches _batches
    cdef public Backlogs _backlogs
    cdef public object _client
    cdef public object _metadata
    cdef public CNumbers _sequence_numbers
    cdef public object _compressor
    cdef public object _settings
    cdef public CMetrics _metrics
    cdef public object _wakeup
    cdef public object _transactions
    cdef public set _compressing
    cdef public dict _failure_seen
    cdef public object _routes
    cdef public Py_ssize_t _came
    cdef public Py_ssize_t _new
    cdef public set _gathering
    cdef public Py_ssize_t _bytes

    @cython.locals(backlog=CBacklog, backlogs=Backlogs, came=Py_ssize_t)
    cpdef step(self, double now)
    @cython.locals(due=double, in_flight=Py_ssize_t)
    cpdef _send_to(self, node, CBacklog backlog, double now)
    cpdef bint _gathers(self, node, CBacklog backlog, double now) except -1
    @cython.locals(batch=CBatch)
    cpdef _number(self, list batches, double now)
    cpdef _send(self, node, list batches, double now)
    @cython.locals(
        batch=CBatch, metrics=CMetrics, records="long long", count="long long", size=Py_ssize_t
    )
    cpdef _request(self, list batches, double now)
