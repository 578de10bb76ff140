"""Decimals of Arrow as text."""

from aioproducer.engine.columnar._speedups.columns cimport Column
from aioproducer.engine.columnar._speedups.output cimport Output


cdef int write_decimal(Output* out, const Column* column, Py_ssize_t row) noexcept nogil
