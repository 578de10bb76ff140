"""A Python worker of PySpark starts its next task sooner.

PySpark calls ``gc.collect()`` after each task. That visits every object of the imported modules:
a twentieth of a second for a task.
"""

from __future__ import annotations

import gc

from aioproducer.spark.zip_importers import drop_zip_importers

_frozen = False


def start_worker() -> None:
    """Call it in every task, before there is a producer."""
    drop_zip_importers()
    freeze_imported()


def freeze_imported() -> None:
    """Leave what is there now, modules above all, out of later collections of this process.

    Only the first call does it: objects of later tasks are collected.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.freeze()
