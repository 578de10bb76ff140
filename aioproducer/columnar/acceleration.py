"""The choice, made once, between the compiled encoders and their references in Python."""

from __future__ import annotations

from aioproducer.columnar.avro_rows import avro_rows

__all__ = ["avro_rows"]
