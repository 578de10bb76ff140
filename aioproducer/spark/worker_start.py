"""A Python worker of PySpark starts its next task sooner.

PySpark calls ``gc.collect()`` after each task, and after each plan and commit of a micro-batch.
That visits every object of the imported modules: a twentieth of a second of a core, while the JVM
goes on to the next step.

PySpark calls ``importlib.invalidate_caches()`` before each task. Up to Python 3.11 that reads the
directories of all archives anew, pyspark.zip and the jar of Spark's core among them, once for each
package that was imported from one: a fifth of a second for a task.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter


def drop_zip_importers() -> None:
    """Leave nothing to be read anew: a later import opens the archive, its directory is kept."""
    if sys.version_info < (3, 12):
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]


_freezes_left = 2
"""The first task, plan or commit of a process still imports a part of what all others need."""


def start_worker() -> None:
    """Call it at the beginning of every task, plan and commit."""
    drop_zip_importers()
    freeze_imported()


def freeze_imported() -> None:
    """Leave what is there now, modules above all, out of later collections of this process.

    Only the first two calls do it: garbage is collected before, and objects of later tasks are. A
    producer that the first task has left in the pool is closed later, but keeps its memory.
    """
    global _freezes_left
    if _freezes_left:
        _freezes_left -= 1
        gc.collect()
        gc.freeze()
