"""Requests to coordinators and their responses, over the wire through kio."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from aioproducer.engine.protocol import Api
from aioproducer.engine.transactions.requests import (
    FIRST_STABLE_VERSION,
    CoordinatorRequest,
    TransactionRequest,
)
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from tests.support.kio_messages import judged, milliseconds, ours, response_module, theirs

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 2)
EVENT = TopicPartition("events", 5)
FIRST, SECOND = (TransactionHandle("payments", 77, 3, version) for version in (1, 2))
MEMBER = ConsumerGroupMetadata("readers", 9, "member-1", "static-1")
CONSUMED = {
    TWO: OffsetAndMetadata(2**62, "note", 8),
    ONE: OffsetAndMetadata(7),
    EVENT: OffsetAndMetadata(0, "", 0),
}
NOTHING = milliseconds(0)


def versions(api: Api) -> range:
    return judged(api)


def each_version(api: Api) -> pytest.MarkDecorator:
    # a producer asks for no offsets that an open transaction would change
    least = FIRST_STABLE_VERSION if api is Api.OFFSET_FETCH else 0
    return pytest.mark.parametrize("version", [each for each in versions(api) if each >= least])


def over_the_wire(entity: Any) -> Any:
    """A response of kio's as our decoder reads it."""
    return ours(entity)


def built(request: CoordinatorRequest, version: int, handle: TransactionHandle = SECOND) -> Any:
    """The request as a broker reads it."""
    if isinstance(request, TransactionRequest):
        request = replace(request, producer=handle)
    assert request.answered
    payload = request.build(version)
    assert payload.api == request.api
    return theirs(payload)


def asker(read: Any, prefix: str = "") -> tuple[str, int, int]:
    names = ("transactional_id", "producer_id", "producer_epoch")
    one, two, three = (getattr(read, prefix + name) for name in names)
    return one, two, three


def responses(api: Api, version: int) -> Any:
    return response_module(api, version)


def throttle(kind: type[Any]) -> dict[str, Any]:
    named = {field.name for field in fields(kind)}
    return {"throttle_time": NOTHING} if "throttle_time" in named else {}
