"""The zip archives on the path of PySpark's Python workers.

PySpark calls ``importlib.invalidate_caches()`` before each task. Up to Python 3.11 that reads the
directories of all archives anew, pyspark.zip and the jar of Spark's core among them, once for each
package that was imported from one: a fifth of a second for a task.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter


def drop_zip_importers() -> None:
    """Leave nothing to be read anew: a later import opens the archive, its directory is kept."""
    if sys.version_info < (3, 12):
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]
