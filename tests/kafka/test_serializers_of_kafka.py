"""The built-in serializers' bytes, read and written again by Kafka's own serializers."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from aioproducer import serialization
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

JAVA = Path(__file__).with_name("java")


def some_values() -> list[tuple[str, Any]]:
    random = Random("some values")
    values: list[tuple[str, Any]] = [
        *((kind, value) for kind in ("Float", "Double") for value in (0.0, -0.0, 1.5, math.inf)),
        ("Float", math.nan),
        ("Double", math.nan),
        *(("String", text) for text in ("a", "Grüße", "🗝", "e\u0301")),
    ]
    for kind, bits in (("Short", 16), ("Integer", 32), ("Long", 64)):
        values += [(kind, value) for value in (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))]
        values += [(kind, random.getrandbits(bits) - 2 ** (bits - 1)) for _ in range(50)]
    for _ in range(50):
        values.append(("Float", random.uniform(-1e6, 1e6)))
        values.append(("Double", random.gauss(0, 1e100)))
        values.append(("UUID", UUID(int=random.getrandbits(128))))
    return values


async def test_kafka_reads_and_writes_the_same(kafka: KafkaCluster) -> None:
    values = some_values()
    made: list[bytes] = [
        getattr(serialization, f"{kind}Serializer")().serialize("orders", value, [])
        for kind, value in values
    ]
    lines = "".join(f"{kind} {data.hex()}\n" for (kind, _), data in zip(values, made, strict=True))
    java = await kafka.tool(str(JAVA / "SerializedValues.java"), input=lines, timeout=60)
    assert java.returncode == 0, java.stderr
    answers = java.stdout.splitlines()
    assert len(answers) == len(values)
    for (kind, value), data, line in zip(values, made, answers, strict=True):
        read, _, again = line.rpartition(" ")
        assert again == data.hex(), (kind, value)
        if kind in ("Short", "Integer", "Long"):
            assert int(read) == value
        elif kind == "Double":
            assert repr(float(read.replace("Infinity", "inf"))) == repr(float(value))
        elif kind == "UUID":
            assert read == str(value)
