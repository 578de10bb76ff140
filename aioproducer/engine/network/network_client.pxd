cimport cython
from aioproducer.engine.metrics.producer_metrics cimport ProducerMetrics as CMetrics
from aioproducer.engine.network.connection_states cimport ConnectionTimeouts as CTimeouts
from aioproducer.engine.network.connection_states cimport NodeConnectionState as CState
from aioproducer.engine.network.exchange cimport Exchange as CExchange
from aioproducer.engine.network.frames cimport InFlightRequest as CInFlight
from aioproducer.foundation.runtime.running_clock cimport RunningClock as CClock

cdef class NetworkClient


cdef class NetworkClient:
    cdef public object settings
    cdef public object owner
    cdef public CClock clock
    cdef public object random
    cdef public object wake
    cdef public CMetrics metrics
    cdef public object responded
    cdef public object features
    cdef public object cluster_id
    cdef public object misrouted
    cdef public object throttled
    cdef public object connect_to
    cdef public Py_ssize_t connections_opened
    cdef public Py_ssize_t total_in_flight
    cdef public dict _nodes
    cdef public list completed
    cdef public set _refused
    cdef public Py_ssize_t _refusals
    cdef public dict _asked_of_any
    cdef public bint _closed
    cdef public bint _throttles
    cdef public object _first_version
    cdef public object _hang_ups
    cdef public bint _has_lost
    cdef public Py_ssize_t _max_in_flight
    cdef public double _max_idle
    cdef public double _request_timeout
    cdef public CTimeouts _timeouts
    cdef public object _log
    cdef public object _events

    @cython.locals(state=CState, exchange=CExchange)
    cpdef Py_ssize_t in_flight(self, node) except -1
    @cython.locals(state=CState, exchange=CExchange)
    cpdef bint can_send(self, node, double now) except -1
    cpdef bint ready(self, node, double now) except -1
    @cython.locals(state=CState, exchange=CExchange, size=Py_ssize_t)
    cpdef send(self, node, request, double now)
    cpdef list take_completed(self)
    cpdef next_timeout(self)
    @cython.locals(latency=double)
    cpdef _on_response(
        self, connection, CInFlight request, response, Py_ssize_t size, double now
    )
