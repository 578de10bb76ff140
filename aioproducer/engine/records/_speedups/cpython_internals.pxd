cdef extern from "Python.h":
    bint is_tracked "PyObject_GC_IsTracked"(object)

cdef void untrack(object each) noexcept
cdef void track(object each) noexcept
cdef object new_tuple(type cls, Py_ssize_t size)
