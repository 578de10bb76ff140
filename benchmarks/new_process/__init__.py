"""Measures the first record of a new process: ``python -m benchmarks.new_process``.

`first.py` is the program that is started; it imports one client's module (`aioproducer_first.py`
and so on), each a program as its user would write it. `__main__.py` starts it again and again.
"""
