"""What an application hangs into its producers: serializers, interceptors, traces, a partitioner.

Each notes what it was asked, for the judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

from aioproducer.engine.observer import CallTrace, Observer, RecordTrace
from aioproducer.model import ProducerRecord

HOOKS: Final = frozenset({"serializer", "partitioner", "interceptors", "tracing"})
"""The options of plans that are hooks of the application."""
ADDED: Final = ("i", b"1")
"""The header that the interceptor adds to each record."""


class WaitingSerializer:
    """Serializes records after a ``prepare()`` that takes ``seconds``."""

    def __init__(self, seconds: float, lived: Callable[[str], object]) -> None:
        self._seconds = seconds
        self._lived = lived
        self._prepared: set[str] = set()

    async def prepare(self, topic: str) -> None:
        """Do what :meth:`serialize` needs."""
        await asyncio.sleep(self._seconds)
        self._prepared.add(topic)
        self._lived("serializer")

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes:
        """The bytes of a value."""
        assert topic in self._prepared, "serialize() before prepare()"
        return bytes(data["value"] if isinstance(data, dict) else data)


class CountingInterceptor:
    """Adds a header, and counts records and acknowledgements."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record is sent."""
        self.sent += 1
        headers = record.headers or ()
        pairs = headers.items() if isinstance(headers, dict) else headers
        return replace(record, headers=(*pairs, ADDED))

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        """A record has its outcome."""
        self.acknowledged += 1


class Trace:
    """The trace of a record or of a call."""

    behind = None
    headers = ()

    def __init__(self) -> None:
        self.endings = 0

    def headers_for(self, _: object) -> tuple[()]:
        """There are none."""
        return self.headers

    def ended(self, *_: object) -> None:
        """It has its outcome."""
        self.endings += 1


class CountingObserver:
    """Traces every record and call, and counts batches."""

    traces = True

    def __init__(self) -> None:
        self.given: list[Trace] = []
        self.batches = 0

    def context(self) -> object:
        """There is one."""
        return self

    def record_sent(self, *_: object) -> Trace:
        """Trace a record."""
        self.given.append(Trace())
        return self.given[-1]

    def call_started(self, *_: object) -> Trace:
        """Trace a ``send_many()``."""
        return self.record_sent()

    def batch_ended(self, _: object) -> None:
        """A batch has its outcome."""
        self.batches += 1

    def request_ended(self, _: object) -> None:
        """A request has ended."""

    def close(self) -> None:
        """The producer is closed."""


_PROTOCOLS: tuple[type[Observer], type[RecordTrace], type[CallTrace]] = (
    CountingObserver,
    Trace,
    Trace,
)


def without_hooks(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a producer without those that stand for hooks of an application."""
    return {name: value for name, value in options.items() if name not in HOOKS}


def partitioner(
    hashes: dict[bytes, int], lived: Callable[[str], object]
) -> Callable[[str, bytes | None, bytes | None, Any], int]:
    """Kafka's choice for keys, and another one for records without a key."""

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        lived("partitioner")
        hashed = crc32(value or b"") if key is None else hashes[bytes(key)]
        return hashed % len(partitions)

    return choose
