cimport cython

from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch as CBatch


cdef class ProduceRequest:
    cdef public list batches
    cdef public int acks
    cdef public int timeout_ms
    cdef public dict topic_ids
    cdef public object transaction
    cdef public bint answered

    @cython.locals(template=_Template, batch=CBatch, known=tuple)
    cpdef build(self, int version)
    @cython.locals(batch=CBatch, by_topic=dict)
    cdef _build_several(self, _Template template)
    cdef _reader_of_several(self, _Template template)


cdef class _Template:
    cdef public int version
    cdef public bint flexible
    cdef public bint has_ids
    cdef public bytes tags
    cdef public bytes end
    cdef public bytes head
    cdef public dict places

    cpdef tuple learn(self, topic_partition, topic_id)
    cpdef bytes topic_head(self, topic, topic_id)


@cython.locals(at=Py_ssize_t, offset="long long", time="long long")
cpdef read_usual_response(bytes begins, bytes body)
@cython.locals(at=Py_ssize_t)
cpdef read_usual_response_of_several(partitions, topics, bytes body)
