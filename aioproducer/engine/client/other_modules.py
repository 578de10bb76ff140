"""Names that are not in the package itself: the modules that have them. No I/O."""

from __future__ import annotations

from types import FrameType
from typing import Final

__all__ = ["no_such_name"]

_NAMES: Final = {
    "aioproducer.admin": ("Admin", "NewTopic"),
    "aioproducer.consumer": ("Consumer", "ConsumerOptions"),
    "aioproducer.failed_records": ("DeadLetterFile", "DeadLetterTopic"),
    "aioproducer.reader": ("ConsumerRecord", "Reader", "RecordBatch"),
    "aioproducer.schema_registry": ("AvroSerializer", "ProtobufSerializer", "SchemaRegistry"),
    "aioproducer.serialization": ("JsonDeserializer", "JsonSerializer", "StringSerializer"),
    "aioproducer.testing": ("KafkaCluster", "MockCluster", "MockProducer", "SyncMockProducer"),
}
_LINES: Final = {
    **{name: f"from {module} import {name}" for module, names in _NAMES.items() for name in names},
    "AIOKafkaConsumer": "from aioproducer.consumer import Consumer",
    "AIOKafkaProducer": "from aioproducer.compat.aiokafka import AIOKafkaProducer",
    "AdminClient": "from aioproducer.admin import Admin",
    "AsyncProducer": "from aioproducer import Producer",
    "KafkaConsumer": "from aioproducer.consumer import Consumer",
    "KafkaProducer": "from aioproducer.sync import Producer",
    "SyncProducer": "from aioproducer.sync import Producer",
}


def no_such_name(name: str, asked_by: FrameType) -> Exception:
    """The error if the package has no ``name``, with the line to write if another module has it.

    An ``import`` asks as ``hasattr()`` does and would replace the AttributeError by an ImportError
    without the line, so it gets an ImportError. ``asked_by``: the caller's frame.
    """
    line = _LINES.get(name)
    if line is None:
        return AttributeError(f"module 'aioproducer' has no attribute {name!r}")
    hint = f"write `{line}`"
    if asked_by.f_code.co_name == "_handle_fromlist":
        return ImportError(f"cannot import name {name!r} from 'aioproducer': {hint}", name=name)
    return AttributeError(f"module 'aioproducer' has no attribute {name!r}: {hint}", name=name)
