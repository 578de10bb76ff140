"""A damaged answer to an Admin is a value to act on, or a ProtocolError; soon, and small."""

from __future__ import annotations

import time
import tracemalloc
from random import Random
from typing import Any

import pytest

from aioproducer.admin import NewTopic
from aioproducer.admin.requests import (
    AlterConfigsRequest,
    AlterOffsetsRequest,
    ApiVersionsRequest,
    CommittedOffsetsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from aioproducer.engine.network import frames
from aioproducer.engine.network.request import Request
from aioproducer.errors import ProtocolError
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import decode, judged, response_type
from tests.support.samples import sample
from tests.unit.admin.test_requests import ASSIGNED
from tests.unit.network.test_frames import body

WHERE = TopicPartition("orders", 1)
REQUESTS: tuple[Request, ...] = (
    AlterConfigsRequest({"orders": {"a": "1"}}),
    AlterOffsetsRequest("orders", {WHERE: OffsetAndMetadata(7)}),
    ApiVersionsRequest(),
    CommittedOffsetsRequest("orders"),
    CreatePartitionsRequest("orders", 8, None, 1),
    CreateTopicsRequest((NewTopic("orders", 1, 1),), 1),
    DeleteGroupsRequest(("orders",)),
    DeleteOffsetsRequest("orders", (WHERE,)),
    DeleteRecordsRequest({WHERE: 7}, 1),
    DeleteTopicsRequest(("orders",), 1),
    DescribeConfigsRequest(("orders",)),
    DescribeConsumerGroupsRequest(("orders",)),
    DescribeGroupsRequest(("orders",)),
    FindCoordinatorRequest("orders"),
    ListGroupsRequest(),
)
EACH = [
    pytest.param(request, version, id=f"{request.api.name}-{version}")
    for request in REQUESTS
    for version in judged(request.api)
    if request.build(version).version == version  # else it is sent in an older one
]
VALUES: dict[str, Any] = {
    "resource_type": 2,
    "protocol_type": "consumer",
    "member_assignment": ASSIGNED,
}
ROUNDS = 200
LONGEST = 1.0
"""Seconds of this thread's own time for one answer, many times what it takes."""
MOST_BYTES = 8_000_000


def read(request: Request, version: int, wire: bytes) -> Any:
    kind = response_type(request.api, version)
    return frames.read_response(decode(kind, wire).response, request.read)


@pytest.mark.parametrize(("request_", "version"), EACH)
def test_a_damaged_answer_is_a_value_or_a_protocol_error(request_: Request, version: int) -> None:
    wire = body(sample(response_type(request_.api, version), VALUES))
    assert read(request_, version, wire)
    random = Random(f"{request_.api} {version}")
    refused = 0
    tracemalloc.start()
    try:
        for changes in (1, 3):
            for _ in range(ROUNDS // changes):
                broken = wire[:4] + damaged(wire[4:], random, changes=changes)
                began = time.thread_time()
                try:
                    read(request_, version, broken)
                except ProtocolError:
                    refused += 1
                assert time.thread_time() - began < LONGEST, broken.hex()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    assert refused, "some have to be beyond understanding, or nothing was damaged"
