from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch as CBatch
from aioproducer.engine.metrics.producer_metrics cimport ProducerMetrics as CMetrics

cdef class DeliveryReports


cdef class DeliveryReports:
    cdef public CMetrics _metrics
    cdef public object _observed
    cdef public object _metadata
    cdef public object _wall_clock_ns
    cdef public object _failed_records

    cpdef delivered(self, CBatch batch, double now)
    cpdef request_ended(self, request, completion)
