"""The garbage collection of PySpark's Python workers.

PySpark calls ``gc.collect()`` after each task. That visits every object of the imported modules:
a twentieth of a second for a task.
"""

from __future__ import annotations

import gc

_frozen = False


def freeze_imported() -> None:
    """Leave what is there now, modules above all, out of later collections of this process.

    Only the first call does it, before there is a producer: objects of later tasks are collected.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.freeze()
