cdef class Flushes:
    cdef public object _newest
    cdef public object _oldest
    cdef public dict _pending
    cdef public dict _futures
    cdef public dict _waiting

    cpdef began(self, item)
    cpdef done(self, item)
    cpdef moved(self, item, to)
    cpdef _leave(self, generation)
