"""Requests to coordinators and their responses, over the wire through kio."""

from __future__ import annotations

import datetime
import importlib
import io
from dataclasses import fields
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from aioproducer.engine.network.apis import SUPPORTED, Api, response_type
from aioproducer.engine.network.frames import encode
from aioproducer.engine.sender.transaction_codec import TransactionRequest
from aioproducer.engine.transactions.requests import CoordinatorRequest
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 2)
EVENT = TopicPartition("events", 5)
FIRST, SECOND = (TransactionHandle("payments", 77, 3, version) for version in (1, 2))
MEMBER = ConsumerGroupMetadata("readers", 9, "member-1", "static-1")
CONSUMED = {
    TWO: OffsetAndMetadata(2**62, "note", 8),
    ONE: OffsetAndMetadata(7),
    EVENT: OffsetAndMetadata(0, "", 0),
}
NOTHING = i32Timedelta.parse(datetime.timedelta(0))


def versions(api: Api) -> range:
    lowest, highest = SUPPORTED[api]
    return range(lowest, highest + 1)


def each_version(api: Api) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions(api))


def over_the_wire(entity: Any) -> Any:
    wire = io.BytesIO()
    entity_writer(type(entity))(wire, entity)
    read, size = entity_reader(type(entity))(wire.getvalue(), 0)
    assert size == len(wire.getvalue())
    return read


def built(request: CoordinatorRequest, version: int, handle: TransactionHandle = SECOND) -> Any:
    """The request as a broker reads it."""
    wire = TransactionRequest(request, handle, 60_000)
    assert wire.answered
    entity = wire.build(version)
    assert encode(entity)
    read = over_the_wire(entity)
    assert int(read.__api_key__) == wire.api
    return read


def asker(read: Any, prefix: str = "") -> tuple[str, int, int]:
    names = ("transactional_id", "producer_id", "producer_epoch")
    one, two, three = (getattr(read, prefix + name) for name in names)
    return one, two, three


def responses(api: Api, version: int) -> Any:
    return importlib.import_module(response_type(api, version).__module__)


def throttle(kind: type[Any]) -> dict[str, Any]:
    named = {field.name for field in fields(kind)}
    return {"throttle_time": NOTHING} if "throttle_time" in named else {}
