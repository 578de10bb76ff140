# cython: language_level=3, binding=False
"""The only uses of CPython's internals: to keep objects from the garbage collector, and the object of
the calling thread.

``AIOPRODUCER_PLAIN_OBJECTS=1`` in the environment shows all objects to it. What hiding them gains,
measured by ``python -m benchmarks --workloads bulk`` with and without the switch, is in
``docs/explanation/architecture.md``.

- *Futures are not tracked.* The collector would visit each of thousands several times.
- *A batch's list of hidden futures is not tracked.* The collector would visit each of its places.
- *Metadata is not tracked.* A ``RecordMetadata`` holds str and int alone, so no cycle goes through
  it. CPython notices this for a plain tuple, and not for a subclass.
"""

import os

from cpython.object cimport PyObject

cdef extern from "Python.h":
    object PyType_GenericAlloc(type, Py_ssize_t)
    void PyObject_GC_UnTrack(PyObject*)
    void PyObject_GC_Track(PyObject*)
    PyObject* PyThreadState_GetDict()
    PyObject* PyDict_GetItemWithError(PyObject*, object) except? NULL

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000  /* a tuple keeps its hash; -1: it was not asked for */
    #define forget_hash(tuple) (((PyTupleObject*)(tuple))->ob_hash = -1)
    #else
    #define forget_hash(tuple) ((void)0)
    #endif
    """
    void forget_hash(object)

cdef str THREAD = "aioproducer: the object of this thread"
cdef bint ENABLED = not os.environ.get("AIOPRODUCER_PLAIN_OBJECTS")


cdef void untrack(object each) noexcept:
    """Hide ``each`` from the garbage collector, unless that is switched off."""
    if ENABLED:
        PyObject_GC_UnTrack(<PyObject*>each)


cdef void track(object each) noexcept:
    """Show ``each`` to the garbage collector again, if it was hidden."""
    if not is_tracked(each):
        PyObject_GC_Track(<PyObject*>each)


cdef object new_tuple(type cls, Py_ssize_t size):
    """An empty tuple of a subclass; the caller must fill its places before anything else."""
    made = PyType_GenericAlloc(cls, size)
    forget_hash(made)
    return made


def hide(each):
    """See ``collection.hide``."""
    untrack(each)


def show(each):
    """See ``collection.show``."""
    track(each)


def this_thread():
    """``threading.current_thread()``, kept in the state of the thread: a call costs a third."""
    cdef PyObject* state = PyThreadState_GetDict()
    cdef PyObject* found = NULL if state is NULL else PyDict_GetItemWithError(state, THREAD)
    if found is not NULL:
        return <object>found
    from threading import current_thread

    thread = current_thread()
    if state is not NULL:
        (<dict>state)[THREAD] = thread
    return thread
