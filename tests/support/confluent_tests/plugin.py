"""A pytest plugin: the producer that confluent-kafka's tests get."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Final

import confluent_kafka
import confluent_kafka.cimpl
import confluent_kafka.error

CLIENT: Final = "CONFLUENT_TESTS_CLIENT"
"""The variable of the client: ``aioproducer`` or ``confluent``."""
THEIRS_ALONE: Final = ("AIOProducer",)

_avro = ModuleType("confluent_kafka.avro")
_avro.AvroProducer = type("AvroProducer", (), {})  # type: ignore[attr-defined]  # needs avro
sys.modules["confluent_kafka.avro"] = _avro

if os.environ.get(CLIENT) == "aioproducer":
    from aioproducer.compat import confluent

    for _name in confluent.__all__:
        for _module in (confluent_kafka, confluent_kafka.cimpl, confluent_kafka.error):
            if hasattr(_module, _name) and _name not in THEIRS_ALONE:
                setattr(_module, _name, getattr(confluent, _name))
