"""Which broker can take a request and what came back: connections are played, time is a number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
    RequestTimeoutError,
    UnsupportedVersionError,
    Written,
)
from aioproducer.metrics import ProducerMetrics
from aioproducer.metrics.names import GAUGES
from aioproducer.model import Node
from aioproducer.network.apis import NO_FEATURES, Api, BrokerVersions, Features, response_type
from aioproducer.network.client import NetworkClient
from aioproducer.network.connection import (
    Connection,
    ConnectionEvents,
    ConnectionSettings,
    ConnectionState,
)
from aioproducer.network.connection_states import ClientSettings
from aioproducer.network.in_flight import InFlightRequest, InFlightRequests
from aioproducer.network.request import Completion
from aioproducer.network.throttling import MAX_THROTTLE
from aioproducer.network.transport import SocketSettings
from aioproducer.runtime.tasks import TaskOwner
from tests.support.chance import NoJitter
from tests.support.settling import settle

ONE, TWO, THREE = (Node(number, f"host{number}", 9092) for number in (1, 2, 3))
SETTINGS = ClientSettings(
    connection=ConnectionSettings("c", "1", 30.0, SocketSettings(-1, -1)),
    max_in_flight=2,
    request_timeout=30.0,
    setup_timeout=10.0,
    setup_timeout_max=30.0,
    reconnect_backoff=1.0,
    reconnect_backoff_max=4.0,
    max_idle=540.0,
)


class FakeConnection:
    """In place of a Connection: the test says what happens to it."""

    def __init__(
        self, node: Node, settings: ConnectionSettings, events: ConnectionEvents, **given: Any
    ) -> None:
        self.node = node
        self.setup_timeout: float = given["setup_timeout"]
        self.clock: Callable[[], float] = given["clock"]
        self.events: Any = events
        self.throttled_until = 0.0
        self.state = ConnectionState.CONNECTING
        self.was_ready = False
        self.in_flight = InFlightRequests()
        self.versions = BrokerVersions([(api, 0, 9) for api in (0, 3, 22)])
        self.last_used = self.clock()
        self.renewal_seconds = 0.25
        self.written: list[Any] = []
        self.aborted: list[ProducerError] = []
        self._number = 0
        self._end: asyncio.Future[ProducerError] = asyncio.get_running_loop().create_future()

    @property
    def usable(self) -> bool:
        return self.state is ConnectionState.READY and not self.aborted

    def send(
        self, api: Api, payload: Any, context: Any, *, timeout: float, answered: bool = True
    ) -> int:
        self.last_used = self.clock()
        self._number += 1
        self.written.append(payload)
        kind = response_type(Api.METADATA, 9) if answered else None
        now = self.clock()
        self.in_flight.add(
            InFlightRequest(self._number, kind, context, now, now + timeout, "METADATA v9")
        )
        return 100

    def abort(self, reason: ProducerError) -> None:
        self.aborted.append(reason)
        if not self._end.done():
            self._end.set_result(self.aborted[0])

    async def run(self) -> ProducerError:
        try:
            return await self._end
        finally:
            self.state = ConnectionState.CLOSED

    # what the test makes happen

    def becomes_ready(self) -> None:
        self.state = ConnectionState.READY
        self.was_ready = True
        self.events.ready(self)

    def everything_left(self) -> None:
        for request in self.in_flight.take_written():
            self.events.written(self, request)

    async def breaks(self, reason: ProducerError | None = None) -> None:
        if not self._end.done():
            self._end.set_result(reason or BrokerConnectionError("broken"))
        await settle()


@dataclass(frozen=True)
class Wrong:
    """A response that can't be read."""

    error: Exception
    __version__ = 9


@dataclass(frozen=True)
class Ask:
    """A request as the sender's are."""

    name: str
    api: Api = Api.METADATA
    answered: bool = True
    error: ProducerError | None = None

    def build(self, version: int) -> Any:
        if self.error is not None:
            raise self.error
        return f"{self.name} in v{version}"

    def read(self, response: Any) -> Any:
        if isinstance(response, Wrong):
            raise response.error
        return response


class ObservedClient:
    """A client over fake connections, its clock, and its calls of others."""

    def __init__(self, settings: ClientSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.woken = 0
        self.deaths: list[BaseException] = []
        self.owner = TaskOwner(self.deaths.append)
        self.metrics = ProducerMetrics(now=self.now)
        self.connections: list[FakeConnection] = []
        self.client = NetworkClient(
            settings,
            self.owner,
            lambda: self.now,
            NoJitter(),
            self._wake,
            self.metrics,
            cast("Callable[..., Connection]", self._connect),
        )

    def _connect(self, *given: Any, **named: Any) -> FakeConnection:
        self.connections.append(FakeConnection(*given, **named))
        return self.connections[-1]

    def _wake(self) -> None:
        self.woken += 1

    async def connected(self, node: Node) -> FakeConnection:
        """A ready connection to ``node``."""
        assert not self.client.ready(node, self.now)
        await settle()
        connection = self.connections[-1]
        connection.becomes_ready()
        return connection

    def metric(self, name: str) -> float:
        gauges = {each.name: float("nan") for each in GAUGES}
        found: Any = self.metrics.snapshot(self.now, gauges=gauges)
        return float(found["producer-metrics"][name])

    def throttled(self) -> float:
        """The longest throttle time in the metrics, milliseconds."""
        return self.metric("produce-throttle-time-max")

    def outcomes(self) -> list[tuple[str, Any]]:
        """Name and response or error of what was completed."""
        return [
            (each.request.name, each.error or each.result) for each in self.client.take_completed()
        ]


@pytest.fixture
async def world() -> ObservedClient:
    return ObservedClient()


def answer(connection: FakeConnection, response: Any = "response") -> None:
    """The broker answers the first request."""
    requests = connection.in_flight.clear()
    first, rest = requests[0], requests[1:]
    for each in rest:
        connection.in_flight.add(each)
    connection.events.response(connection, first, response, 50)


def test_what_is_played_is_what_there_is() -> None:
    for name in (
        "node",
        "state",
        "in_flight",
        "versions",
        "last_used",
        "was_ready",
        "renewal_seconds",
    ):
        assert name in Connection.__init__.__code__.co_names
    for name in ("usable", "send", "abort", "run"):
        assert hasattr(Connection, name)


# --- connecting ---------------------------------------------------------------------------------


async def test_nothing_is_connected_until_it_is_needed(world: ObservedClient) -> None:
    assert not world.client.can_send(1, world.now)
    assert world.connections == []
    assert not world.client.ready(ONE, world.now)
    assert not world.client.ready(ONE, world.now)
    await settle()
    assert [each.node for each in world.connections] == [ONE], "one connection for each broker"
    assert world.client.connection_count() == 0
    world.connections[0].becomes_ready()
    assert world.woken == 1
    assert world.client.ready(ONE, world.now)
    assert world.client.connection_count() == 1
    assert not world.client.can_send(2, world.now)


async def test_reconnecting_backs_off_exponentially_until_one_succeeds(
    world: ObservedClient,
) -> None:
    waits = []
    for _ in range(5):
        world.client.connect(ONE, world.now)
        await settle()
        await world.connections[-1].breaks()
        moment = world.client.not_before(1, world.now)
        assert moment is not None
        waits.append(moment - world.now)
        count = len(world.connections)
        world.client.connect(ONE, moment - 0.001)
        await settle()
        assert len(world.connections) == count, "not before its time"
        world.now = moment
        assert world.client.not_before(1, world.now) is None
    assert waits == [1.0, 2.0, 4.0, 4.0, 4.0]
    (await world.connected(ONE)).in_flight.clear()
    await world.connections[-1].breaks()
    assert world.client.not_before(1, world.now) == world.now + 1.0, "success forgot the failures"
    assert world.client.not_before(2, world.now) is None, "each broker by itself"


async def test_the_setup_timeout_grows_with_failed_setups_alone(world: ObservedClient) -> None:
    for _ in range(3):
        world.client.connect(ONE, world.now)
        await settle()
        await world.connections[-1].breaks()
        world.now += 10
    assert [each.setup_timeout for each in world.connections] == [10.0, 20.0, 30.0]
    await (await world.connected(ONE)).breaks()
    world.now += 10
    world.client.connect(ONE, world.now)
    assert world.connections[-1].setup_timeout == 10.0


async def test_the_last_error_of_each_broker_is_kept_until_it_answers(
    world: ObservedClient,
) -> None:
    reasons = {1: BrokerConnectionError("one"), 2: ProtocolError("two")}
    for node in (ONE, TWO):
        world.client.connect(node, world.now)
        await settle()
        await world.connections[-1].breaks(reasons[node.id])
    assert world.client.failures() == reasons
    world.now += 10
    await world.connected(ONE)
    assert world.client.failures() == {2: reasons[2]}


async def test_a_broker_that_moved_is_connected_at_its_new_address(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    for number in range(2):
        world.client.send(1, Ask(f"ask {number}"))
    moved = Node(1, "elsewhere", 9092)
    assert not world.client.ready(moved, world.now), "full, so the address is looked at"
    assert len(connection.aborted) == 1
    assert "has a new address" in str(connection.aborted[0])
    await settle()
    assert [name for name, _ in world.outcomes()] == ["ask 0", "ask 1"]
    world.now += 1.0
    assert not world.client.ready(moved, world.now)
    assert world.connections[-1].node == moved


async def test_a_broker_whose_rack_alone_changed_has_not_moved(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.connect(ONE._replace(rack="elsewhere"), world.now)
    assert connection.aborted == []


async def test_a_closed_client_connects_no_more(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("ask"))
    world.client.close()
    assert str(connection.aborted[0]) == "the producer was closed"
    await settle()
    assert [name for name, _ in world.outcomes()] == ["ask"]
    world.now += 1000
    assert not world.client.ready(ONE, world.now)
    assert not world.client.ready(TWO, world.now)
    assert len(world.connections) == 1
    await world.owner.close()


async def test_a_connection_that_dies_of_a_bug_breaks_the_producer(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    bug = ZeroDivisionError()
    connection._end.set_exception(bug)
    await settle()
    assert world.deaths == [bug]
    assert not world.client.can_send(1, world.now)


# --- sending ------------------------------------------------------------------------------------


async def test_a_request_is_built_in_the_version_of_its_broker(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("ask"))
    assert connection.written == ["ask in v9"]
    assert world.client.in_flight(1) == world.client.total_in_flight() == 1
    woken = world.woken
    world.now += 2.5
    answer(connection)
    assert world.woken > woken
    assert world.client.take_completed() == [Completion(Ask("ask"), 1, "response", None, 2.5)]
    assert world.client.take_completed() == []
    assert world.client.in_flight(1) == 0


async def test_no_more_than_the_limit_is_in_flight_to_each_broker(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    await world.connected(TWO)
    for number in range(2):
        assert world.client.can_send(1, world.now)
        world.client.send(1, Ask(f"ask {number}"))
    assert not world.client.can_send(1, world.now)
    assert world.client.can_send(2, world.now)
    answer(connection)
    assert world.client.can_send(1, world.now)


async def test_a_request_without_answer_is_complete_when_it_has_left(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    for _ in range(2):
        assert world.client.can_send(1, world.now)
        world.client.send(1, Ask("fire", answered=False))
    assert world.client.in_flight(1) == 2
    assert not world.client.can_send(1, world.now)
    assert world.outcomes() == []
    woken = world.woken
    connection.everything_left()
    assert world.woken > woken
    assert world.client.in_flight(1) == 0
    assert world.outcomes() == [("fire", None)] * 2


async def test_a_request_without_answer_that_does_not_leave_ends_its_connection(
    world: ObservedClient,
) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("fire", answered=False))
    world.now += SETTINGS.request_timeout
    world.client.poll(world.now)
    (reason,) = connection.aborted
    assert isinstance(reason, RequestTimeoutError)
    assert "did not read a" in str(reason)
    await settle()
    assert world.outcomes() == [("fire", reason)]


@pytest.mark.parametrize("in_build", [True, False])
async def test_versions_without_a_way_to_ask_are_believed_when_they_are_told_again(
    world: ObservedClient, in_build: bool
) -> None:
    """One damaged answer must not make a transaction impossible, say; a broker too old does."""
    first = await world.connected(ONE)
    world.client.send(1, Ask("before", api=Api.PRODUCE))
    error = UnsupportedVersionError("no topic ids")
    impossible = Ask("bad", Api.METADATA, error=error) if in_build else Ask("bad", Api.END_TXN)
    world.client.send(1, impossible)
    ((name, failure),) = world.outcomes()
    assert name == "bad"
    assert isinstance(failure, BrokerConnectionError)
    assert failure.retriable
    assert failure.written is Written.NO, "it was not sent"
    await settle()
    ((name, lost),) = world.outcomes()
    assert name == "before"
    assert lost.written is Written.MAYBE
    assert first.aborted == [lost]

    world.now += 10
    second = await world.connected(ONE)
    world.client.send(1, Ask("before", api=Api.PRODUCE))
    for _ in range(2):
        world.client.send(1, impossible)
    for name, failure in world.outcomes():
        assert name == "bad"
        assert isinstance(failure, UnsupportedVersionError)
    assert second.aborted == []
    assert world.client.in_flight(1) == 1


async def test_versions_that_are_right_after_all_are_forgotten_to_have_been_wrong(
    world: ObservedClient,
) -> None:
    bad = Ask("bad", error=UnsupportedVersionError("absurd"))
    for request, ends in ((bad, True), (Ask("fine"), False), (bad, True)):
        connection = world.connections[-1] if world.connections else await world.connected(ONE)
        if connection.aborted:
            world.now += 10
            connection = await world.connected(ONE)
        world.client.send(1, request)
        await settle()
        assert bool(connection.aborted) is ends
    assert not any(isinstance(said, UnsupportedVersionError) for _, said in world.outcomes())


@pytest.mark.parametrize("wrong", [TypeError("null"), ProtocolError("offset -7")])
async def test_an_answer_that_cannot_be_true_has_no_effect(
    world: ObservedClient, wrong: Exception
) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("ask"))
    request = connection.in_flight.complete_next(1)
    with pytest.raises(ProtocolError, match=str(wrong)):
        connection.events.response(connection, request, Wrong(wrong), 100)
    assert world.outcomes() == []


async def test_what_is_odd_is_logged_once_for_each_broker(
    world: ObservedClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aioproducer")
    for node in (ONE, TWO, ONE):
        connection = await world.connected(node)
        for what in ("left over", "left over", "other"):
            connection.events.anomaly(connection, what)
        await connection.breaks()
        world.now += 10
    said = [each.getMessage() for each in caplog.records if "ignored" in each.getMessage()]
    assert len(said) == 4
    assert len(set(said)) == 4


async def test_all_that_is_in_flight_fails_with_its_connection_in_order(
    world: ObservedClient,
) -> None:
    connection = await world.connected(ONE)
    other = await world.connected(TWO)
    world.client.send(2, Ask("elsewhere"))
    for number in range(2):
        world.client.send(1, Ask(f"ask {number}"))
    reason = BrokerConnectionError("broken")
    woken = world.woken
    await connection.breaks(reason)
    assert world.outcomes() == [("ask 0", reason), ("ask 1", reason)]
    assert world.woken > woken
    assert world.client.total_in_flight() == 1
    assert not other.aborted


async def test_requests_of_the_handshake_are_nobodys_business(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    world.connections[0].send(Api.API_VERSIONS, None, None, timeout=1)
    await world.connections[0].breaks()
    assert world.client.take_completed() == []


async def test_a_connection_about_to_end_takes_no_request(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    connection.abort(BrokerConnectionError("x"))
    assert not world.client.can_send(1, world.now)
    assert world.client.least_loaded([ONE], world.now) is None


# --- timeouts -----------------------------------------------------------------------------------


async def test_a_request_without_answer_in_time_ends_its_connection(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("slow"))
    world.now += 10
    world.client.send(1, Ask("later"))
    assert world.client.poll(world.now) == 1030.0
    world.now = 1029.999
    world.client.poll(world.now)
    assert connection.aborted == []
    world.now = 1030.0
    world.client.poll(world.now)
    await settle()
    outcomes = world.outcomes()
    assert [name for name, _ in outcomes] == ["slow", "later"]
    error = outcomes[0][1]
    assert isinstance(error, RequestTimeoutError)
    for part in ("broker 1 (host1:9092)", "METADATA v9", "30.0 s", "request_timeout_ms"):
        assert part in str(error)


async def test_a_connection_that_is_not_used_for_long_is_closed(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    assert world.client.poll(world.now) == 1540.0
    world.now = 1100.0
    world.client.send(1, Ask("ask"))
    assert world.client.poll(world.now) == 1130.0
    answer(connection)
    assert world.client.poll(world.now) == 1130.0, "it does not look again before"
    world.now = 1130.0
    assert world.client.poll(world.now) == 1640.0, "using it counts"
    world.now = 1639.999
    world.client.poll(world.now)
    assert connection.aborted == []
    world.now = 1640.0
    world.client.poll(world.now)
    assert "no request used the connection" in str(connection.aborted[0])


async def test_waiting_for_an_answer_is_no_idleness() -> None:
    world = ObservedClient(replace(SETTINGS, max_idle=5.0))
    connection = await world.connected(ONE)
    world.client.send(1, Ask("ask"))
    world.now += 20
    assert world.client.poll(world.now) == 1030.0
    assert connection.aborted == []


async def test_idleness_may_be_without_end() -> None:
    world = ObservedClient(replace(SETTINGS, max_idle=float("inf")))
    connection = await world.connected(ONE)
    world.now += 1e9
    world.client.poll(world.now)
    assert connection.aborted == []


async def test_poll_leaves_a_connection_that_is_being_set_up_alone(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    assert world.client.poll(world.now + 1e9) is None
    assert world.connections[0].aborted == []


# --- throttling (KIP-219) -----------------------------------------------------------------------


def asks_for_a_pause(world: ObservedClient, node: int, seconds: float) -> None:
    """Its answer to a request that was sent before does."""
    connection = next(each for each in world.connections[::-1] if each.node.id == node)
    connection.send(Api.METADATA, "before", Ask("before"), timeout=1.0)
    request = connection.in_flight.clear()[-1]
    said = SimpleNamespace(throttle_time=timedelta(seconds=seconds))
    connection.events.response(connection, request, said, 100)


async def test_a_throttled_broker_gets_nothing_for_as_long_as_it_asked(
    world: ObservedClient,
) -> None:
    await world.connected(ONE)
    await world.connected(TWO)
    asks_for_a_pause(world, 1, 2.0)
    assert not world.client.can_send(1, world.now)
    assert world.client.can_send(2, world.now)
    assert not world.client.ready(ONE, world.now)
    assert world.client.not_before(1, world.now) == 1002.0
    asks_for_a_pause(world, 1, 0.5)
    assert world.client.not_before(1, world.now) == 1002.0, "a shorter wish ends no longer one"
    assert not world.client.can_send(1, 1001.999)
    assert world.client.can_send(1, 1002.0)
    assert world.client.not_before(1, 1002.0) is None
    assert len(world.connections) == 2


@pytest.mark.parametrize("seconds", [0.0, -0.001, -2_000_000.0])
async def test_a_throttle_time_of_zero_or_less_is_none(
    world: ObservedClient, seconds: float
) -> None:
    await world.connected(ONE)
    asks_for_a_pause(world, 1, seconds)
    assert world.client.can_send(1, world.now)
    assert world.throttled() == 0.0


@pytest.mark.parametrize("seconds", [11.001, 185_000.0, 2_147_483.647])
async def test_no_broker_is_left_alone_for_longer_than_it_remembers(
    world: ObservedClient, seconds: float
) -> None:
    await world.connected(ONE)
    asks_for_a_pause(world, 1, seconds)
    assert not world.client.can_send(1, world.now + 10.999)
    assert world.client.can_send(1, world.now + MAX_THROTTLE)
    assert world.throttled() == 11_000.0


async def test_a_throttle_time_ends_with_its_connection(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    asks_for_a_pause(world, 1, 10.0)
    await connection.breaks()
    world.now += 2.0
    await world.connected(ONE)
    assert world.client.can_send(1, world.now)


# --- whom to ask --------------------------------------------------------------------------------


async def test_the_least_loaded_broker(world: ObservedClient) -> None:
    nodes = (ONE, TWO, THREE)
    for node in nodes:
        await world.connected(node)
    world.client.send(1, Ask("a"))
    world.client.send(1, Ask("b"))
    world.client.send(2, Ask("c"))
    assert world.client.least_loaded(nodes, world.now) == THREE
    assert world.client.least_loaded((ONE, TWO), world.now) == TWO
    assert world.client.least_loaded((ONE,), world.now) is None, "it is full"
    assert world.client.least_loaded((), world.now) is None
    asks_for_a_pause(world, 3, 5.0)
    assert world.client.least_loaded(nodes, world.now) == TWO


async def test_connected_before_connecting_before_unconnected_before_none(
    world: ObservedClient,
) -> None:
    assert world.client.least_loaded((ONE,), world.now) == ONE, "it may be connected"
    world.client.connect(TWO, world.now)
    await settle()
    assert world.client.least_loaded((ONE, TWO), world.now) == TWO, "it is on its way"
    await world.connected(THREE)
    world.client.send(3, Ask("a"))
    assert world.client.least_loaded((ONE, TWO, THREE), world.now) == THREE
    await world.connections[0].breaks()
    assert world.client.least_loaded((TWO,), world.now) is None, "its backoff lasts"
    assert world.client.least_loaded((TWO,), world.now + 1.0) == TWO


async def test_ties_are_broken_at_random() -> None:
    world = ObservedClient()
    world.client.random = Random(7)
    nodes = (ONE, TWO, THREE)
    assert {world.client.least_loaded(nodes, world.now) for _ in range(100)} == set(nodes)


async def test_brokers_that_left_are_forgotten_unless_connected(world: ObservedClient) -> None:
    await world.connected(ONE)
    for node in (TWO, THREE):
        world.client.connect(node, world.now)
        await settle()
        await world.connections[-1].breaks()
    world.client.forget_except([3])
    assert set(world.client.failures()) == {3}
    assert world.client.connection_count() == 1
    assert world.client.not_before(2, world.now) is None


# --- what the cluster has agreed on -------------------------------------------------------------


async def test_the_versions_of_a_broker_that_is_connected(world: ObservedClient) -> None:
    assert world.client.versions() == {}
    await world.connected(ONE)
    assert world.client.versions() == {
        "PRODUCE": (0, 9),
        "METADATA": (0, 9),
        "INIT_PRODUCER_ID": (0, 9),
    }


async def test_the_newest_features_are_kept_whichever_broker_tells_them(
    world: ObservedClient,
) -> None:
    async def tells(node: Node, features: Features) -> Features:
        world.client.connect(node, world.now)
        await settle()
        world.connections[-1].versions = BrokerVersions([(3, 0, 9)], features)
        world.connections[-1].becomes_ready()
        return world.client.features

    old, new = Features(4, {"transaction.version": 1}), Features(5, {"transaction.version": 2})
    assert world.client.features == NO_FEATURES
    assert await tells(ONE, old) == old
    assert await tells(TWO, new) == new
    assert await tells(THREE, old) == new, "it has not heard of them yet"
    await world.connections[0].breaks()
    world.now += 10
    assert await tells(ONE, NO_FEATURES) == new, "it does not tell"


# --- logins in the metrics ----------------------------------------------------------------------


class Login:
    """A mechanism that nobody asks for a step here."""

    name = "TEST"

    async def begin(self, host: str) -> NoReturn:
        raise NotImplementedError

    async def close(self) -> None: ...


def logins(world: ObservedClient) -> dict[str, float]:
    names = ("successful", "failed")
    return {
        f"{name}-{what}": world.metric(f"{name}-{what}-total")
        for name in names
        for what in ("authentication", "reauthentication")
    }


NO_LOGINS = dict.fromkeys(
    (
        "successful-authentication",
        "successful-reauthentication",
        "failed-authentication",
        "failed-reauthentication",
    ),
    0.0,
)
WITH_LOGIN = replace(SETTINGS, connection=replace(SETTINGS.connection, mechanism=Login()))


async def test_connections_that_were_let_in_are_counted() -> None:
    world = ObservedClient(WITH_LOGIN)
    await world.connected(ONE)
    connection = await world.connected(TWO)
    woken = world.woken
    connection.events.renewed(connection)
    assert world.woken == woken + 1
    assert logins(world) == {
        **NO_LOGINS,
        "successful-authentication": 2.0,
        "successful-reauthentication": 1.0,
    }
    assert world.metric("reauthentication-latency-max") == 250.0


async def test_logins_that_were_refused_are_counted() -> None:
    world = ObservedClient(WITH_LOGIN)
    connection = await world.connected(ONE)
    await connection.breaks(AuthenticationError("no more"))
    world.client.connect(TWO, world.now)
    await settle()
    await world.connections[-1].breaks(AuthenticationError("never"))
    assert logins(world) == {
        "successful-authentication": 1.0,
        "successful-reauthentication": 0.0,
        "failed-authentication": 1.0,
        "failed-reauthentication": 1.0,
    }


async def test_connections_without_tls_or_login_count_as_no_login(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    await connection.breaks()
    assert logins(world) == NO_LOGINS


# --- refused logins -----------------------------------------------------------------------------


REFUSED = AuthenticationError("wrong password")
QUICK = replace(SETTINGS, reconnect_backoff=0.05, reconnect_backoff_max=1.0)


async def refused(world: ObservedClient, node: Node = ONE) -> float:
    """A login that fails; for how many seconds the broker is left alone then."""
    world.client.connect(node, world.now)
    await settle()
    await world.connections[-1].breaks(REFUSED)
    moment = world.client.not_before(node.id, world.now)
    assert moment is not None
    return moment - world.now


async def test_refused_logins_back_off_for_longer_and_longer_until_one_succeeds() -> None:
    world = ObservedClient(QUICK)
    waits = []
    for _ in range(9):
        waits.append(await refused(world))
        world.now += waits[-1]
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
    connection = await world.connected(ONE)
    assert not world.client.has_refused_logins
    await connection.breaks()
    assert world.client.not_before(1, world.now) == pytest.approx(world.now + 0.05)
    world.now += 1
    assert await refused(world) == pytest.approx(1), "it begins anew"


async def test_a_refused_renewal_backs_off_as_a_refused_login(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    await connection.breaks(REFUSED)
    assert world.client.has_refused_logins
    assert world.client.not_before(1, world.now) == pytest.approx(world.now + 1)


async def test_what_was_in_flight_is_not_refused_with_the_login(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.client.send(1, Ask("first"))
    await connection.breaks(REFUSED)
    ((name, error),) = world.outcomes()
    assert name == "first"
    assert type(error) is BrokerConnectionError
    assert "wrong password" in str(error)


async def test_a_refusal_counts_when_no_broker_is_left_to_try() -> None:
    world = ObservedClient(QUICK)
    assert world.client.refusal([ONE, TWO]) is None
    await refused(world, ONE)
    assert world.client.refusal([ONE]) is REFUSED
    assert world.client.refusal([ONE, TWO]) is None, "the other one may let it in"
    world.client.connect(TWO, world.now)
    await settle()
    assert world.client.refusal([ONE, TWO]) is None, "the same, while it is tried"
    await world.connections[-1].breaks()
    assert world.client.refusal([ONE, TWO]) is REFUSED, "nobody is reached there"
    await world.connected(THREE)
    assert world.client.refusal([ONE, TWO]) is None, "a broker has let it in"


async def test_a_broker_that_let_the_producer_in_before_is_still_to_be_tried(
    world: ObservedClient,
) -> None:
    connection = await world.connected(TWO)
    await connection.breaks()
    await refused(world, ONE)
    assert world.client.refusal([ONE, TWO]) is None, "its connection was cut, not refused"


async def test_the_refusals_of_all_brokers_count_for_the_wait(world: ObservedClient) -> None:
    """They have the same accounts, which may be locked."""
    waits = [await refused(world, node) for node in (ONE, TWO, THREE)]
    assert waits == pytest.approx([1, 2, 4])


async def test_brokers_that_are_not_reached_refuse_nobody(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    await world.connections[-1].breaks()
    assert world.client.refusal([ONE]) is None
    assert not world.client.has_refused_logins


async def test_a_refusal_is_forgotten_with_its_broker(world: ObservedClient) -> None:
    await refused(world)
    world.client.forget_except([2])
    assert not world.client.has_refused_logins
    assert world.client.refusal([ONE]) is None
