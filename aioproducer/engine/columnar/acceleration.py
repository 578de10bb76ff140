"""The choice, made once, between the compiled encoders and their references in Python.

``AIOPRODUCER_PURE_PYTHON=1`` in the environment forces the references.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

ACCELERATED = False
"""True if the compiled encoders are in use."""

if not os.environ.get("AIOPRODUCER_PURE_PYTHON"):
    # As in records/acceleration.py: no compiler, or compiled modules of other sources.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            from aioproducer.engine.columnar import _speedups as speedups

        ACCELERATED = True
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeWarning):
        pass

if TYPE_CHECKING or not ACCELERATED:
    from aioproducer.engine.columnar.avro_rows import avro_rows
    from aioproducer.engine.columnar.json_rows import json_rows
    from aioproducer.engine.columnar.protobuf_rows import protobuf_rows
else:
    avro_rows = speedups.avro_rows
    json_rows = speedups.json_rows
    protobuf_rows = speedups.protobuf_rows

__all__ = ["ACCELERATED", "avro_rows", "json_rows", "protobuf_rows"]
