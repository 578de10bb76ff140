cimport cython

from aioproducer.engine.metrics.summary cimport Summary, add_values


cdef class ProducerMetrics:
    cdef public object _windows

    @cython.locals(records="long long", size="long long", in_request="long long")
    cpdef request_built(self, batches, double now)
    @cython.locals(end="long long", first="long long", sent_ns="long long")
    cpdef records_delivered(self, batches, long long now_ns, double now)
    cpdef request_sent(self, node_id, Py_ssize_t size, double now)
    cpdef response_received(
        self,
        node_id,
        Py_ssize_t size,
        throttle_time,
        double now,
        latency=*,
        round_trip=*,
    )
