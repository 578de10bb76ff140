cdef class EntryToken:
    cdef public str _state
