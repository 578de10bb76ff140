"""A damaged answer to any request is a value to act on, or a ProtocolError; soon, and small."""

from __future__ import annotations

import time
import tracemalloc
from random import Random
from typing import Any

import pytest

from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.network import frames
from aioproducer.engine.network.login import session_lifetime
from aioproducer.engine.network.request import Request
from aioproducer.engine.network.versions import ApiVersionsHandshake
from aioproducer.engine.protocol import Api
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Coordinator,
    CoordinatorType,
    EndTxn,
    FindCoordinator,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.errors import ProtocolError
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import decode, response_type, sample
from tests.support.responses import read_to_its_end, unread
from tests.support.world import PAYMENTS
from tests.unit.network import test_frames
from tests.unit.network.test_frames import TOPIC_ID, batch, body

PLACE = TopicPartition("orders", 1)
REQUESTS: dict[Api, Request] = {
    Api.PRODUCE: ProduceRequest([(batch(partition=1), b"")], -1, 30_000, {"orders": TOPIC_ID}),
    Api.METADATA: MetadataRequest(
        Asked(frozenset({"orders"}), full=True), detailed=frozenset({"orders"})
    ),
    Api.INIT_PRODUCER_ID: InitProducerIdRequest(),
    Api.FIND_COORDINATOR: FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, "orders")),
    Api.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxn(frozenset({PLACE}), producer=PAYMENTS),
    Api.ADD_OFFSETS_TO_TXN: AddOffsetsToTxn("group", producer=PAYMENTS),
    Api.END_TXN: EndTxn(committed=True, producer=PAYMENTS),
    Api.TXN_OFFSET_COMMIT: TxnOffsetCommit(
        {PLACE: OffsetAndMetadata(7, "m", 3)}, ConsumerGroupMetadata("group"), producer=PAYMENTS
    ),
    Api.OFFSET_FETCH: OffsetFetch("orders", frozenset({PLACE})),
}
"""The requests of producers, whose responses have the values of ``sample``."""
LOGIN = (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE)
EACH = [
    (api, version)
    for api, version in test_frames.EACH
    if api in REQUESTS or api is Api.API_VERSIONS or api in LOGIN
]

ROUNDS = 400
LONGEST = 1.0
"""Seconds of this thread's own time for one answer, many times what it takes."""
MOST_BYTES = 8_000_000
"""Of all of them together, with the classes that are made for the first."""


def read(api: Api, version: int, wire: bytes) -> Any:
    if api in LOGIN:
        said: Any = decode(response_type(api, version), wire).response
        lasts = said.session_lifetime_ms if api is Api.SASL_AUTHENTICATE else 0
        return said.error_code, session_lifetime(lasts)
    request, kind = REQUESTS.get(api), response_type(api, version)
    if isinstance(request, MetadataRequest):
        answer = unread(version, wire)
        return read_to_its_end(answer, request.asked.topics, request.detailed)
    if request is not None:
        return frames.read_response(decode(kind, wire).response, request.read)
    handshake = ApiVersionsHandshake()
    handshake.next_version = version
    handshake.receive(version, wire)
    return handshake.versions


def answers(api: Api, version: int) -> list[bytes]:
    """An answer that fits the request, and one that repeats everything."""
    kind, values = response_type(api, version), {}
    if api is Api.METADATA:
        values = {"partition_index": 0}
    return [body(sample(kind, values, entries=number)) for number in (1, 2)]


@pytest.mark.parametrize(("api", "version"), EACH)
def test_what_is_not_damaged_is_read(api: Api, version: int) -> None:
    assert read(api, version, answers(api, version)[0]) is not None


@pytest.mark.parametrize("changes", [1, 3])
@pytest.mark.parametrize(("api", "version"), EACH)
def test_a_damaged_answer_is_a_value_or_a_protocol_error(
    api: Api, version: int, changes: int
) -> None:
    random = Random(f"{api} {version} {changes}")
    wires = answers(api, version)
    outcomes = {True: 0, False: 0}
    tracemalloc.start()
    try:
        for _ in range(ROUNDS // changes):
            wire = random.choice(wires)
            broken = wire[:4] + damaged(wire[4:], random, changes=changes)
            began = time.thread_time()
            try:
                said = read(api, version, broken)
            except ProtocolError:
                said = None
            assert time.thread_time() - began < LONGEST, broken.hex()
            outcomes[said is None] += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    assert outcomes[True], "some have to be beyond understanding, or nothing was damaged"
