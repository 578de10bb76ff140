cimport cython

cdef Py_ssize_t _SIZE, _THREAD


cdef class Chunk:
    cdef public object thread
    cdef public list entries
    cdef public Py_ssize_t passed


cdef class Inbox:
    cdef public Py_ssize_t capacity
    cdef public Py_ssize_t takes
    cdef public list entries
    cdef public Py_ssize_t _fresh
    cdef public dict _stalled
    cdef public Py_ssize_t _stalled_total
    cdef public dict _waiting
    cdef public bint _closed

    cpdef bint fits(self, thread, Py_ssize_t size) except -1
    @cython.locals(size=Py_ssize_t)
    cpdef bint put(self, tuple entry) except -1
    cpdef list _take_entries(self)
