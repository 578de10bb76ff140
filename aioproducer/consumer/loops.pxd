cimport cython


cdef class Records:
    cdef object _source
    cdef object _cursor
    cdef object _progress
    cdef object _session
    cdef object _check
    cdef object _last
    cdef Py_ssize_t _quick
    cdef double _looked

    @cython.locals(looked=double, now=double)
    cdef bint _is_quick(self) except -1
