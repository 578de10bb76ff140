"""A Python worker of PySpark starts its next task sooner.

PySpark calls ``gc.collect()`` after each task. That visits every object of the imported modules:
a twentieth of a second for a task.

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
