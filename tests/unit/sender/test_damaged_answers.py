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
    AddPartitionsToTxn,
    OffsetFetch,
    TxnOffsetCommit,
)
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import decode, response_type
from tests.support.responses import read_to_its_end, unread
from tests.support.world import PAYMENTS
from tests.unit.network import test_frames
from tests.unit.network.test_frames import REQUESTS, TOPIC_ID, batch, body, response

EACH = [
    (api, version)
    for api, version in test_frames.EACH
    if api in REQUESTS
    or api
    in (
        Api.PRODUCE,
        Api.METADATA,
        Api.API_VERSIONS,
        Api.INIT_PRODUCER_ID,
        Api.SASL_HANDSHAKE,
        Api.SASL_AUTHENTICATE,
    )
]
"""The requests of producers."""

ROUNDS = 400
LONGEST = 1.0
"""Seconds of this thread's own time for one answer, many times what it takes."""
MOST_BYTES = 8_000_000
"""Of all of them together, with the classes that are made for the first."""


def asked(api: Api) -> Request | None:
    """The request that the undamaged answer fits to; None: the handshake's."""
    if api is Api.API_VERSIONS:
        return None
    if api is Api.PRODUCE:
        return ProduceRequest([(batch(), b"")], -1, 30_000, {"orders": TOPIC_ID})
    if api is Api.METADATA:
        wanted = frozenset({"orders"})
        return MetadataRequest(Asked(wanted, full=True), detailed=wanted)
    if api is Api.INIT_PRODUCER_ID:
        return InitProducerIdRequest()
    request = REQUESTS[api]
    place = TopicPartition("orders", 0)
    match request:  # the answers are about fewer partitions
        case AddPartitionsToTxn():
            request = AddPartitionsToTxn(frozenset({place}), producer=PAYMENTS)
        case TxnOffsetCommit(offsets, group):
            request = TxnOffsetCommit(
                {place: next(iter(offsets.values()))}, group, producer=PAYMENTS
            )
        case OffsetFetch(group_id):
            request = OffsetFetch(group_id, frozenset({TopicPartition("orders", 1)}))
    return request


def read(api: Api, version: int, wire: bytes) -> Any:
    if api in (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE):
        said: Any = decode(response_type(api, version), wire).response
        lasts = said.session_lifetime_ms if api is Api.SASL_AUTHENTICATE else 0
        return said.error_code, session_lifetime(lasts)
    request, kind = asked(api), response_type(api, version)
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
    """As many answers as there are to begin with: full ones, and one without repetition."""
    whole = response(api, version)
    if api is Api.PRODUCE:
        (topic,) = whole.responses
        once = type(topic)(
            **{name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)},
            partition_responses=topic.partition_responses[:1],
        )
        return [body(type(whole)(responses=(once,))), body(whole)]
    return [body(whole)]


@pytest.mark.parametrize(("api", "version"), EACH)
def test_what_is_not_damaged_is_read(api: Api, version: int) -> None:
    if api is Api.METADATA:  # the full one repeats a partition
        with pytest.raises(ProtocolError, match="2 partitions of topic 'orders' with 1 numbers"):
            read(api, version, answers(api, version)[0])
    else:
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
