"""The choice, made once, between the compiled innermost loops and their Python reference.

``AIOPRODUCER_PURE_PYTHON=1`` in the environment forces the reference.
"""

from __future__ import annotations

import warnings
from functools import cache

from aioproducer.foundation import compiled

ACCELERATED = False
"""True if the compiled loops are in use."""

if compiled.has_loops(__package__):
    # The installation had no compiler, or left compiled modules older than the Python ones. Old
    # modules lack names, or expect classes of another size, which Cython notices at the import.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            from aioproducer.engine.records import _speedups as speedups
            from aioproducer.engine.records._speedups import (
                BinaryColumn,
                HeadersColumn,
                IntColumn,
                OpenBuilders,
                ParsedRecords,
                RecordResults,
                RecordsBuilder,
                Routes,
                arrow_buffers,
                batch_size_bound,
                deliver_records,
                fail_record,
                fill_places,
                hide,
                new_buffer,
                partitions_of_keys,
                route,
                rows_by_partition,
                show,
                take_ahead,
            )

        ACCELERATED = True
    except (ImportError, TypeError, ValueError, RuntimeWarning):
        pass

if not ACCELERATED:
    from aioproducer.engine.partitioning import route
    from aioproducer.engine.records.builder import RecordsBuilder, batch_size_bound, new_buffer
    from aioproducer.engine.records.bulk_tokens import fill_places, take_ahead
    from aioproducer.engine.records.columns import (
        BinaryColumn,
        HeadersColumn,
        IntColumn,
        partitions_of_keys,
        rows_by_partition,
    )
    from aioproducer.engine.records.delivery import (
        RecordResults,
        deliver_records,
        fail_record,
        hide,
        show,
    )
    from aioproducer.engine.records.parsed_records import ParsedRecords, arrow_buffers
    from aioproducer.engine.records.routes import OpenBuilders, Routes


@cache
def is_compiled() -> bool:
    """True if the compiled modules are in use: the loops of records, and ``compiled.MODULES``."""
    return ACCELERATED and compiled.in_use()


__all__ = [
    "ACCELERATED",
    "BinaryColumn",
    "HeadersColumn",
    "IntColumn",
    "OpenBuilders",
    "ParsedRecords",
    "RecordResults",
    "RecordsBuilder",
    "Routes",
    "speedups",
    "arrow_buffers",
    "batch_size_bound",
    "deliver_records",
    "fail_record",
    "fill_places",
    "hide",
    "is_compiled",
    "new_buffer",
    "partitions_of_keys",
    "route",
    "rows_by_partition",
    "show",
    "take_ahead",
]
