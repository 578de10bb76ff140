"""What a record costs in its serializer: ``python -m benchmarks.serializers --rounds 15``.

Records of ten fields in Avro, JSON and Protobuf, written and read beside confluent-kafka's own
serializers (with their registry in memory, so neither asks a network) and beside the bare
libraries, which know neither a registry nor what does not fit. The cases of a table alternate in
each round. Printed is the CPU time of one record, the median over the rounds and their range, and
its ratio to the bare library.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from statistics import median
from typing import Any, Final

import fastavro
import orjson
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

from aioproducer.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
)
from aioproducer.testing import InMemorySchemaRegistry
from benchmarks.report import Measurement, Section, add_options

Call = Callable[[], object]

TOPIC: Final = "orders"
AVRO: Final = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "currency", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "country", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON: Final = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "price": {"type": "number"},
        "quantity": {"type": "integer"},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "customer"],
}


@dataclass
class Order:
    """An order of ten fields."""

    id: int
    customer: str
    price: float
    quantity: int
    paid: bool
    currency: str
    note: str | None
    created: datetime
    country: str
    tags: list[str]


def an_avro_order() -> Order:
    """One order."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Order(1234567, "customer-17", 12.5, 3, True, "EUR", "hello", now, "DE", ["a", "b"])


@dataclass(frozen=True)
class Setting:
    """The two registries in memory."""

    ours: InMemorySchemaRegistry
    theirs: SchemaRegistryClient
    context: SerializationContext
    options: dict[str, Any]


async def avro_cases(setting: Setting) -> dict[str, dict[str, Call]]:
    """The tables of Avro: of dicts, of dataclasses, and of data that are read."""
    order = an_avro_order()
    fields = dict(vars(order))
    parsed = fastavro.parse_schema(AVRO)
    serializer = AvroSerializer[Any](setting.ours, AVRO)
    await serializer.prepare(TOPIC)
    of_dicts = TheirAvroSerializer(setting.theirs, json.dumps(AVRO), conf=setting.options)
    of_objects = TheirAvroSerializer(
        setting.theirs, json.dumps(AVRO), lambda value, _: dict(vars(value)), setting.options
    )

    def bare(value: dict[str, Any]) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        return buffer.getvalue()

    data = serializer.serialize(TOPIC, order, [])
    assert data[5:] == bare(fields)
    deserializer = AvroDeserializer[Any](setting.ours)
    await deserializer.deserialize(TOPIC, data)
    their_data = of_dicts(fields, setting.context)
    their_deserializer = TheirAvroDeserializer(setting.theirs, conf=setting.options)
    payload = data[5:]
    return {
        "Avro, dicts": {
            "fastavro": lambda: bare(fields),
            "aioproducer": lambda: serializer.serialize(TOPIC, fields, []),
            "confluent-kafka": lambda: of_dicts(fields, setting.context),
        },
        "Avro, dataclasses": {
            "fastavro, vars()": lambda: bare(vars(order)),
            "fastavro, dataclasses.asdict()": lambda: bare(dataclasses.asdict(order)),
            "aioproducer": lambda: serializer.serialize(TOPIC, order, []),
            "confluent-kafka, vars()": lambda: of_objects(order, setting.context),
        },
        "Avro, read": {
            "fastavro": lambda: fastavro.schemaless_reader(BytesIO(payload), parsed, None),
            "aioproducer": lambda: deserializer.decode(TOPIC, data),
            "confluent-kafka": lambda: their_deserializer(their_data, setting.context),
        },
    }


async def json_cases(setting: Setting) -> dict[str, dict[str, Call]]:
    """The table of JSON Schema; the bare library validates nothing."""
    fields = {**vars(an_avro_order()), "created": "2026-01-02T03:04:05Z"}
    serializer = JsonSchemaSerializer[Any](setting.ours, JSON)
    await serializer.prepare("json")
    theirs = JSONSerializer(json.dumps(JSON), setting.theirs, conf=setting.options)
    context = SerializationContext("json", MessageField.VALUE)
    return {
        "JSON Schema, dicts": {
            "orjson, not validated": lambda: orjson.dumps(fields),
            "aioproducer": lambda: serializer.serialize("json", fields, []),
            "confluent-kafka": lambda: theirs(fields, context),
        }
    }


def a_message() -> Any:
    """An order of ten fields in Protobuf."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    values: dict[str, tuple[int, Any]] = {
        "id": (3, 1234567),
        "customer": (9, "customer-17"),
        "price": (1, 12.5),
        "quantity": (5, 3),
        "paid": (8, True),
        "currency": (9, "EUR"),
        "note": (9, "hello"),
        "created": (3, 1767323045000),
        "country": (9, "DE"),
        "tag": (9, "a"),
    }
    for number, (name, (kind, _)) in enumerate(values.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return kind(**{name: value for name, (_, value) in values.items()})


async def protobuf_cases(setting: Setting) -> dict[str, dict[str, Call]]:
    """The table of Protobuf."""
    order = a_message()
    serializer = ProtobufSerializer[Any](setting.ours, type(order))
    await serializer.prepare("protobuf")
    theirs = TheirProtobufSerializer(type(order), setting.theirs, setting.options)
    context = SerializationContext("protobuf", MessageField.VALUE)
    return {
        "Protobuf": {
            "protobuf": order.SerializeToString,
            "aioproducer": lambda: serializer.serialize("protobuf", order, []),
            "confluent-kafka": lambda: theirs(order, context),
        }
    }


def measured(call: Call, records: int) -> float:
    """The CPU time of one call in µs."""
    began = time.thread_time()
    for _ in range(records):
        call()
    return (time.thread_time() - began) / records * 1e6


def measured_by_turns(
    title: str, cases: dict[str, Call], rounds: int, records: int
) -> Iterator[tuple[str, ...]]:
    """A row for each case; the first one is what the others are compared with."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for call in cases.values():
        measured(call, records // 10)
    names = list(cases)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            times[name].append(measured(cases[name], records))
    base = median(times[names[0]])
    for name, found in times.items():
        spread = f"{min(found):.2f}..{max(found):.2f}"
        yield title, name, f"{median(found):.2f}", spread, f"{median(found) / base:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serializers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--records", type=int, default=5_000, help="in each round")
    add_options(parser)
    options = parser.parse_args(arguments)
    libraries = ["confluent-kafka", "fastavro", "orjson", "protobuf"]
    measurement = Measurement.begin(parser, arguments, options, libraries, seconds=60)
    section = Section(
        title=f"serializers: CPU time of a record of ten fields; {options.rounds} rounds",
        headings=("value", "library", "CPU-µs/record", "range", "of the bare library"),
        rows=tuple(asyncio.run(all_rows(options.rounds, options.records))),
        labels=2,
    )
    measurement.publish([section])
    return 0


async def all_rows(rounds: int, records: int) -> list[tuple[str, ...]]:
    """Those of every table."""
    theirs = SchemaRegistryClient.new_client({"url": "mock://benchmark"})
    context = SerializationContext(TOPIC, MessageField.VALUE)
    options = {"subject.name.strategy.type": "TOPIC"}
    setting = Setting(InMemorySchemaRegistry(), theirs, context, options)
    rows: list[tuple[str, ...]] = []
    for make in (avro_cases, json_cases, protobuf_cases):
        for title, cases in (await make(setting)).items():
            rows += measured_by_turns(title, cases, rounds, records)
    return rows


if __name__ == "__main__":
    sys.exit(main())
