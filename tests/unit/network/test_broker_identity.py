"""A connection is for one broker, and ends if another one answers (KIP-1242)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.versions import (
    CHECKED,
    UNCHECKED,
    BrokerIdentity,
    BrokerVersions,
    api_versions_request,
)
from aioproducer.engine.protocol import Api, request_schema, response_schema
from aioproducer.errors import BrokerConnectionError, ProtocolError, RebootstrapRequiredError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import BootstrapId, BootstrapServer, Node
from tests.support.waiting import settle
from tests.unit.network.observed_client import ONE, TWO, Ask, FakeConnection, ObservedClient
from tests.unit.network.scripted_broker import LONG, Owner, Peer, broker, metadata

SEVEN = BrokerIdentity("ours", 7)


def versions_of(version: int, highest: int, code: int = ErrorCode.NONE) -> bytes:
    """The body of a response by a broker that speaks ApiVersions up to ``highest``."""
    schema = response_schema(Api.API_VERSIONS)
    ranges = tuple(
        schema.ApiVersion(api, 0, top) for api, top in ((0, 9), (3, 9), (17, 1), (18, highest))
    )
    response = schema.ApiVersionsResponse(error_code=code, api_keys=ranges)
    return schema.encode(response, version)


class Answering:
    """A broker that answers ApiVersions, and remembers what it was asked."""

    def __init__(
        self, highest: int, *, says: int = ErrorCode.NONE, cluster: str | None = "ours"
    ) -> None:
        self.highest = highest
        self.cluster = cluster
        self.says = says
        self.asked: list[tuple[int, Any, Any]] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            number, version = request[4:8], int.from_bytes(request[2:4], "big")
            if int.from_bytes(request[:2], "big") == Api.METADATA:
                self.asked.append((version, "cluster", None))
                peer.say(number + metadata(self.cluster))
                continue
            if version > self.highest:
                self.asked.append((version, None, None))
                peer.say(number + versions_of(0, self.highest, ErrorCode.UNSUPPORTED_VERSION))
                continue
            start = 8 + 2 + len("tester") + (version >= 3)
            said, _ = request_schema(Api.API_VERSIONS).decode(request, start, version)
            self.asked.append((version, said.cluster_id, said.node_id))
            checks = version >= CHECKED and said.cluster_id is not None
            peer.say(number + versions_of(version, self.highest, self.says if checks else 0))


async def outcome(
    script: Callable[[Peer], Awaitable[None]],
    identity: BrokerIdentity | None,
    first: int,
    **given: Any,
) -> Any:
    """The connection once it is ready, or the error that has ended it."""
    async with broker(script) as node:
        owner = Owner(node, identity=identity, first_version=first, given=given)
        running = owner.run()
        ready = asyncio.ensure_future(owner.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=LONG)
        ready.cancel()
        if running.done():
            return running.result()
        owner.connection.abort(BrokerConnectionError("enough"))
        await running
        return owner.connection


@pytest.mark.parametrize(
    ("highest", "first", "asked"),
    [
        pytest.param(5, CHECKED, [(5, "ours", 7)], id="known to check: one round trip"),
        pytest.param(5, UNCHECKED, [(4, None, -1), (5, "ours", 7)], id="turns out to check"),
        pytest.param(4, UNCHECKED, [(4, None, -1)], id="does not check"),
        pytest.param(3, 3, [(3, None, -1)], id="older"),
        pytest.param(4, CHECKED, [(5, None, None), (4, None, -1)], id="older than the last broker"),
    ],
)
async def test_a_broker_hears_once_which_one_is_meant(
    highest: int, first: int, asked: list[Any]
) -> None:
    script = Answering(highest)
    connection = await outcome(script, SEVEN, first)
    assert connection.phase.was_ready
    assert connection.versions[Api.METADATA] == 9
    assert script.asked == asked


@pytest.mark.parametrize("first", [CHECKED, UNCHECKED])
async def test_nobody_is_meant_at_a_bootstrap_server(first: int) -> None:
    script = Answering(5, says=ErrorCode.REBOOTSTRAP_REQUIRED)
    connection = await outcome(script, None, first)
    assert connection.phase.was_ready
    assert script.asked == [(4, None, -1)]


@pytest.mark.parametrize("first", [CHECKED, UNCHECKED])
async def test_another_broker_ends_the_connection_before_it_is_used(first: int) -> None:
    error = await outcome(Answering(5, says=ErrorCode.REBOOTSTRAP_REQUIRED), SEVEN, first)
    assert isinstance(error, RebootstrapRequiredError)
    assert "broker 7 (127.0.0.1:" in str(error)
    assert "another broker now has its address" in str(error)


@pytest.mark.parametrize("cluster", ["ours", None])
@pytest.mark.parametrize(
    ("highest", "first", "most", "asked"),
    [
        pytest.param(4, 4, 5, [(4, None, -1), (9, "cluster", None)], id="does not check"),
        pytest.param(5, 4, 4, [(4, None, -1), (9, "cluster", None)], id="hung up at the check"),
        pytest.param(
            4,
            5,
            5,
            [(5, None, None), (4, None, -1), (9, "cluster", None)],
            id="older than the last broker",
        ),
        pytest.param(5, 4, 5, [(4, None, -1), (5, "ours", 7)], id="turns out to check"),
        pytest.param(5, 5, 5, [(5, "ours", 7)], id="checks"),
    ],
)
async def test_a_broker_that_does_not_check_is_asked_for_its_cluster_after_a_loss(
    highest: int, first: int, most: int, asked: list[Any], cluster: str | None
) -> None:
    script = Answering(highest, cluster=cluster)
    connection = await outcome(script, SEVEN, first, highest_version=most, is_doubtful=True)
    assert connection.phase.was_ready
    assert script.asked == asked


async def test_a_broker_of_another_cluster_that_does_not_check_is_found_out() -> None:
    error = await outcome(Answering(4, cluster="theirs"), SEVEN, 4, is_doubtful=True)
    assert isinstance(error, RebootstrapRequiredError)
    assert "another broker now has its address" in str(error)


async def test_damaged_metadata_ends_a_connection_that_is_not_ready() -> None:
    async def script(peer: Peer) -> None:
        peer.say(await peer.number() + versions_of(4, 4))
        peer.say(await peer.number() + metadata("ours")[:-9])

    error = await outcome(script, SEVEN, 4, is_doubtful=True)
    assert isinstance(error, ProtocolError)


async def test_another_error_of_the_check_is_a_protocol_error() -> None:
    error = await outcome(Answering(5, says=ErrorCode.INVALID_REQUEST), SEVEN, UNCHECKED)
    assert isinstance(error, ProtocolError)
    assert "INVALID_REQUEST" in str(error)


def test_versions_before_5_name_no_broker() -> None:
    for version in range(CHECKED):
        meant = api_versions_request(version, "1.2.3", SEVEN)
        assert meant.parts == api_versions_request(version, "1.2.3").parts


# --- the client ---------------------------------------------------------------------------------


@pytest.fixture
def world() -> ObservedClient:
    return ObservedClient()


def given(world: ObservedClient, client: NetworkClient, node: Any) -> tuple[Any, int]:
    """What the connection to ``node`` was made with."""
    client.connect(node, world.clock())
    return world.connections[-1].given["identity"], world.connections[-1].given["first_version"]


def speaks(connection: FakeConnection, highest: int) -> None:
    connection.versions = BrokerVersions([(api, 0, 9) for api in (0, 3)] + [(18, 0, highest)])
    connection.becomes_ready()


async def test_brokers_are_checked_once_the_cluster_is_known(world: ObservedClient) -> None:
    client = world.client
    boot = BootstrapServer(BootstrapId("-1"), "boot", 9092)
    assert given(world, client, boot) == (None, UNCHECKED)
    speaks(world.connections[-1], 5)
    client.cluster_id = "ours"
    assert given(world, client, ONE) == (BrokerIdentity("ours", 1), CHECKED)
    speaks(world.connections[-1], 3)
    assert given(world, client, TWO) == (BrokerIdentity("ours", 2), 3)
    speaks(world.connections[-1], 0)
    assert given(world, client, Node(3, "host3", 9092))[1] == 3, "a proxy's answer, perhaps"


async def test_a_reset_does_not_switch_the_check_off(world: ObservedClient) -> None:
    """The next connection asks with a lower version, and the one after it with the newest."""
    client = world.client
    client.cluster_id = "ours"
    client.connect(ONE, world.clock())
    speaks(world.connections[-1], CHECKED)
    await settle()
    await world.connections[-1].breaks(BrokerConnectionError("lost"))
    world.now += 5
    assert given(world, client, ONE) == (BrokerIdentity("ours", 1), CHECKED)
    await settle()
    world.connections[-1].hung_up_at = CHECKED
    await world.connections[-1].breaks(BrokerConnectionError("reset"))
    assert given(world, client, ONE) == (BrokerIdentity("ours", 1), UNCHECKED)
    assert world.connections[-1].given["is_doubtful"], "its cluster is asked for instead"
    speaks(world.connections[-1], CHECKED)
    await settle()
    await world.connections[-1].breaks(BrokerConnectionError("lost"))
    world.now += 5
    assert given(world, client, ONE) == (BrokerIdentity("ours", 1), CHECKED)


async def test_a_bootstrap_server_is_never_a_certain_broker(world: ObservedClient) -> None:
    world.client.cluster_id = "ours"
    boot = BootstrapServer(BootstrapId("-1"), "boot", 9092)
    assert given(world, world.client, boot) == (None, UNCHECKED)


async def test_a_wrong_broker_is_reported_and_tried_again_after_a_backoff(
    world: ObservedClient,
) -> None:
    told: list[float] = []
    world.client.misrouted = told.append
    world.client.connect(ONE, world.clock())
    await settle()
    await world.connections[-1].breaks(RebootstrapRequiredError("another broker"))
    assert told == [world.now]
    world.client.connect(ONE, world.clock())
    assert len(world.connections) == 1
    assert world.client.not_before(ONE.id, world.clock()) == world.now + 1.0


async def test_a_known_broker_may_be_elsewhere_after_each_failure(world: ObservedClient) -> None:
    told: list[float] = []
    world.client.failed = lambda: told.append(world.now)
    (await world.connected(ONE)).abort(BrokerConnectionError("lost"))
    await settle()
    assert told == [1000.0]
    world.now += 2.0
    world.client.connect(ONE, world.clock())
    await settle()
    await world.connections[-1].breaks(BrokerConnectionError("not reached"))
    assert told == [1000.0, 1002.0]
    boot = BootstrapServer(BootstrapId("-1"), "boot", 9092)
    world.client.connect(boot, world.clock())
    await settle()
    await world.connections[-1].breaks(BrokerConnectionError("not reached"))
    assert len(told) == 2, "no answer about the cluster moves a bootstrap server"
    idle = await world.connected(TWO)
    world.now += 540.0
    world.client.connect(TWO, world.clock())
    await settle()
    assert idle.aborted
    world.client.close()
    await settle()
    assert len(told) == 2, "the end of an unused connection, or of the client, is no failure"


async def test_a_connection_in_use_that_ends_is_no_wrong_broker(world: ObservedClient) -> None:
    told: list[float] = []
    world.client.misrouted = told.append
    world.client.connect(ONE, world.clock())
    await settle()
    world.connections[-1].becomes_ready()
    world.send(ONE.id, Ask("in flight"))
    world.client.end(ONE.id, RebootstrapRequiredError("its metadata is of another cluster"))
    await settle()
    assert world.client.connection_count() == 0
    assert told == []
    [lost] = world.client.take_completed()
    assert type(lost.error) is BrokerConnectionError, "another broker may take the request"
    world.client.end(TWO.id, RebootstrapRequiredError("there is no connection"))
