"""The choice between the compiled innermost loops and their reference in Python, once.

``AIOPRODUCER_PURE_PYTHON=1`` in the environment forces the reference.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

ACCELERATED = False
"""True if the compiled loops are in use."""

if not os.environ.get("AIOPRODUCER_PURE_PYTHON"):
    # At the installation there was no compiler, or it left modules that are older than the rest:
    # those lack names, or know classes of another size, which Cython finds out at the import.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            from aioproducer.records import compiled

        ACCELERATED = True
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeWarning):
        pass

if TYPE_CHECKING or not ACCELERATED:
    from aioproducer.records.builder import RecordsBuilder
    from aioproducer.records.columns import (
        BinaryColumn,
        IntColumn,
        partitions_of_keys,
        rows_by_partition,
    )
    from aioproducer.records.delivery import deliver_records, fail_record
    from aioproducer.records.short_way import OpenBatches, ShortWay
    from aioproducer.records.spans import fill_places
else:
    BinaryColumn = compiled.BinaryColumn
    IntColumn = compiled.IntColumn
    OpenBatches = compiled.OpenBatches
    RecordsBuilder = compiled.RecordsBuilder
    ShortWay = compiled.ShortWay
    deliver_records = compiled.deliver_records
    fail_record = compiled.fail_record
    fill_places = compiled.fill_places
    partitions_of_keys = compiled.partitions_of_keys
    rows_by_partition = compiled.rows_by_partition

__all__ = [
    "ACCELERATED",
    "BinaryColumn",
    "IntColumn",
    "OpenBatches",
    "RecordsBuilder",
    "ShortWay",
    "compiled",
    "deliver_records",
    "fail_record",
    "fill_places",
    "partitions_of_keys",
    "rows_by_partition",
]
