"""Which broker can take a request and what came back: connections are played, time is a number."""

from __future__ import annotations

import logging
from random import Random

import pytest

from aioproducer.engine.network.connection import (
    Connection,
)
from aioproducer.engine.network.versions import NO_FEATURES, BrokerVersions, Features
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import (
    BrokerConnectionError,
    ProtocolError,
    RequestTimeoutError,
    UnsupportedVersionError,
    Written,
)
from aioproducer.model import Node
from tests.support.waiting import settle
from tests.unit.network.observed_client import (
    ONE,
    SETTINGS,
    THREE,
    TWO,
    Ask,
    ObservedClient,
    Wrong,
    answer,
    asks_for_a_pause,
)


def test_what_is_played_is_what_there_is() -> None:
    for name in (
        "node",
        "phase",
        "exchange",
        "in_flight",
        "versions",
        "timeouts",
        "renewal_seconds",
    ):
        assert name in Connection.__init__.__code__.co_names
    for name in ("abort", "run"):
        assert hasattr(Connection, name)


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
        world.send(1, Ask(f"ask {number}"))
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
    world.send(1, Ask("ask"))
    world.client.close()
    assert str(connection.aborted[0]) == "the client was closed"
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


async def test_a_request_is_built_in_the_version_of_its_broker(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    assert connection.written == ["ask in v9"]
    assert len(connection.in_flight) == world.client.total_in_flight == 1
    woken = world.woken
    world.now += 2.5
    answer(connection)
    assert world.woken > woken
    (ended,) = world.client.take_completed()
    assert (ended.request, ended.node, ended.result) == (Ask("ask"), 1, "response")
    assert (ended.error, ended.latency) == (None, 2.5)
    assert world.client.take_completed() == []
    assert len(connection.in_flight) == 0


async def test_a_response_that_was_read_straight_from_its_bytes(world: ObservedClient) -> None:
    """It is the value and the pause; every other one is read by its request."""
    connection = await world.connected(ONE)
    world.send(1, Ask("usual"))
    answer(connection, (["a place"], 0.25))
    assert world.outcomes() == [("usual", ["a place"])]
    assert world.client.not_before(1, world.now) == world.now + 0.25
    assert world.throttled() == 250.0


@pytest.mark.parametrize("milliseconds", [0, 250])
async def test_a_message_is_no_usual_response_although_it_is_a_tuple(
    world: ObservedClient, milliseconds: int
) -> None:
    said = response_schema(Api.PRODUCE).ProduceResponse(throttle_time_ms=milliseconds)
    connection = await world.connected(ONE)
    world.send(1, Ask("unusual"))
    answer(connection, said)
    assert world.outcomes() == [("unusual", said)]
    assert world.throttled() == milliseconds
    assert world.client.can_send(1, world.now) is not bool(milliseconds)


async def test_no_more_than_the_limit_is_in_flight_to_each_broker(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    await world.connected(TWO)
    for number in range(2):
        assert world.client.can_send(1, world.now)
        world.send(1, Ask(f"ask {number}"))
    assert not world.client.can_send(1, world.now)
    assert world.client.can_send(2, world.now)
    answer(connection)
    assert world.client.can_send(1, world.now)


async def test_only_produce_requests_count_as_producing(world: ObservedClient) -> None:
    connection, other = await world.connected(ONE), await world.connected(TWO)

    def producing() -> list[bool]:
        client = world.client
        return [client.is_producing(1), client.is_producing(2), client.is_producing_anywhere()]

    world.send(1, Ask("topics", api=Api.METADATA))
    assert producing() == [False, False, False]
    world.send(1, Ask("records", api=Api.PRODUCE))
    assert producing() == [True, False, True]
    answer(connection)
    assert producing() == [True, False, True]
    await connection.breaks()
    assert producing() == [False, False, False]
    world.send(2, Ask("records", api=Api.PRODUCE, answered=False))
    assert producing() == [False, True, True]
    other.everything_left()
    assert producing() == [False, False, False]
    assert not world.client.is_producing(9)


async def test_a_request_without_answer_is_complete_when_it_has_left(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    for _ in range(2):
        assert world.client.can_send(1, world.now)
        world.send(1, Ask("fire", answered=False))
    assert len(connection.in_flight) == 2
    assert not world.client.can_send(1, world.now)
    assert world.outcomes() == []
    woken = world.woken
    connection.everything_left()
    assert world.woken > woken
    assert len(connection.in_flight) == 0
    assert world.outcomes() == [("fire", None)] * 2


async def test_a_request_without_answer_that_does_not_leave_ends_its_connection(
    world: ObservedClient,
) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("fire", answered=False))
    world.now += SETTINGS.connection.request_timeout
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
    world.send(1, Ask("before", api=Api.PRODUCE))
    error = UnsupportedVersionError("no topic ids")
    impossible = Ask("bad", Api.METADATA, error=error) if in_build else Ask("bad", Api.END_TXN)
    world.send(1, impossible)
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
    world.send(1, Ask("before", api=Api.PRODUCE))
    for _ in range(2):
        world.send(1, impossible)
    for name, failure in world.outcomes():
        assert name == "bad"
        assert isinstance(failure, UnsupportedVersionError)
    assert second.aborted == []
    assert len(second.in_flight) == 1


async def test_versions_that_are_right_after_all_are_forgotten_to_have_been_wrong(
    world: ObservedClient,
) -> None:
    bad = Ask("bad", error=UnsupportedVersionError("absurd"))
    for request, ends in ((bad, True), (Ask("fine"), False), (bad, True)):
        connection = world.connections[-1] if world.connections else await world.connected(ONE)
        if connection.aborted:
            world.now += 10
            connection = await world.connected(ONE)
        world.send(1, request)
        await settle()
        assert bool(connection.aborted) is ends
    assert not any(isinstance(said, UnsupportedVersionError) for _, said in world.outcomes())


@pytest.mark.parametrize("wrong", [TypeError("null"), ProtocolError("offset -7")])
async def test_an_answer_that_cannot_be_true_has_no_effect(
    world: ObservedClient, wrong: Exception
) -> None:
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    request = connection.in_flight.take(1)
    with pytest.raises(ProtocolError, match=str(wrong)):
        connection.events.response(connection, request, Wrong(wrong), 100, connection.clock())
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
    world.send(2, Ask("elsewhere"))
    for number in range(2):
        world.send(1, Ask(f"ask {number}"))
    reason = BrokerConnectionError("broken")
    woken = world.woken
    await connection.breaks(reason)
    assert world.outcomes() == [("ask 0", reason), ("ask 1", reason)]
    assert world.woken > woken
    assert world.client.total_in_flight == 1
    assert not other.aborted


async def test_requests_of_the_handshake_are_nobodys_business(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    world.connections[0].exchange.send(Ask("versions").build(4), None, world.now)
    await world.connections[0].breaks()
    assert world.client.take_completed() == []


async def test_a_connection_about_to_end_takes_no_request(world: ObservedClient) -> None:
    connection = await world.connected(ONE)
    connection.abort(BrokerConnectionError("x"))
    assert not world.client.can_send(1, world.now)
    assert world.client.least_loaded([ONE], world.now) is None


async def test_the_least_loaded_broker(world: ObservedClient) -> None:
    nodes = (ONE, TWO, THREE)
    for node in nodes:
        await world.connected(node)
    world.send(1, Ask("a"))
    world.send(1, Ask("b"))
    world.send(2, Ask("c"))
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
    world.send(3, Ask("a"))
    assert world.client.least_loaded((ONE, TWO, THREE), world.now) == THREE
    await world.connections[0].breaks()
    assert world.client.least_loaded((TWO,), world.now) is None, "its backoff lasts"
    assert world.client.least_loaded((TWO,), world.now + 1.0) == TWO


async def test_a_broker_that_takes_long_to_connect_comes_last(world: ObservedClient) -> None:
    world.client.connect(ONE, world.now)
    assert world.client.next_timeout() == world.now + 1.0
    world.now += 0.999
    assert world.client.least_loaded((ONE, TWO), world.now) == ONE
    world.now += 0.001
    assert world.client.least_loaded((ONE, TWO), world.now) == TWO
    assert world.client.least_loaded((ONE,), world.now) == ONE, "there is no other"
    world.client.poll(world.now)
    assert world.client.next_timeout() is None, "it is found slow once"


async def test_a_broker_that_could_not_be_connected_comes_after_untried_ones(
    world: ObservedClient,
) -> None:
    world.client.connect(ONE, world.now)
    await settle()
    await world.connections[0].breaks()
    world.now += 10.0
    world.client.random = Random(7)
    chosen = {world.client.least_loaded((ONE, TWO, THREE), world.now) for _ in range(50)}
    assert chosen == {TWO, THREE}
    assert world.client.least_loaded((ONE,), world.now) == ONE


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


@pytest.mark.parametrize("missing", [True, False])
async def test_a_login_that_may_be_missing_is_a_warning(
    world: ObservedClient, caplog: pytest.LogCaptureFixture, missing: bool
) -> None:
    """Such a connection is established each time, so no other line tells of it."""
    caplog.set_level(logging.INFO, "aioproducer")
    connection = await world.connected(ONE)
    world.send(1, Ask("ask"))
    connection.asks_for_login = missing
    await connection.breaks()
    [line] = [each for each in caplog.records if "1 request in flight: broken" in each.getMessage()]
    assert line.levelno == (logging.WARNING if missing else logging.INFO)


async def test_requests_are_logged_soon_after_the_application_wants_it(
    world: ObservedClient, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        connection = world.connections[-1]
        caplog.clear()
        world.send(1, Ask("ask"))
        answer(connection)
        return [each.getMessage() for each in caplog.records]

    caplog.set_level(logging.INFO, "aioproducer")
    await world.connected(ONE)
    assert logged() == []
    caplog.set_level(logging.DEBUG, "aioproducer")
    world.now += 0.5
    assert logged() == [
        "MetadataRequest to broker 1 (host1:9092): 25 bytes",
        "METADATA v9 answered by broker 1 (host1:9092) after 0.0 ms",
    ]
    caplog.set_level(logging.INFO, "aioproducer")
    world.now += 0.5
    assert logged() == []


# --- requests that any broker can answer ---------------------------------------------------------


async def test_what_a_slow_broker_owes_is_asked_of_another_as_well(world: ObservedClient) -> None:
    """The first answer is the answer, whoever gives it; the other one is dropped."""
    slow, other = await world.connected(ONE), await world.connected(TWO)
    world.client.send_to_any(1, Ask("metadata"), (ONE, TWO), world.now)
    world.client.poll(world.now)
    assert world.client.next_timeout() == world.now + 1.0
    world.now += 1.0
    world.client.poll(world.now)
    assert slow.written == other.written == ["metadata in v9"]
    world.client.poll(world.now + 1.0)
    assert len(slow.written) == len(other.written) == 1, "each broker once"
    answer(other, "of the other one")
    assert world.outcomes() == [("metadata", "of the other one")]
    assert slow.aborted == []
    answer(slow, "too late")
    assert world.outcomes() == []
    assert world.client.total_in_flight == 0


async def test_a_slow_broker_may_still_be_the_first(world: ObservedClient) -> None:
    slow, other = await world.connected(ONE), await world.connected(TWO)
    world.client.send_to_any(1, Ask("metadata"), (ONE, TWO), world.now)
    world.now += 1.0
    world.client.poll(world.now)
    answer(slow, "after all")
    answer(other, "as well")
    assert world.outcomes() == [("metadata", "after all")]


async def test_a_copy_that_is_lost_is_no_error_while_another_may_be_answered(
    world: ObservedClient,
) -> None:
    slow, other = await world.connected(ONE), await world.connected(TWO)
    world.client.send_to_any(1, Ask("metadata"), (ONE, TWO), world.now)
    world.now += 1.0
    world.client.poll(world.now)
    await other.breaks()
    assert world.outcomes() == []
    reason = BrokerConnectionError("this one as well")
    await slow.breaks(reason)
    assert world.outcomes() == [("metadata", reason)]


async def test_another_broker_is_connected_for_what_a_slow_one_owes(world: ObservedClient) -> None:
    await world.connected(ONE)
    world.client.send_to_any(1, Ask("metadata"), (ONE, TWO), world.now)
    world.now += 1.0
    world.client.poll(world.now)
    await settle()
    other = world.connections[-1]
    assert other.node == TWO
    other.becomes_ready()
    due = world.client.next_timeout()
    assert due is not None
    assert due <= world.now
    world.client.poll(world.now)
    assert other.written == ["metadata in v9"]


async def test_a_broker_that_owes_an_answer_comes_last(world: ObservedClient) -> None:
    await world.connected(ONE)
    await world.connected(TWO)
    world.client.send_to_any(1, Ask("metadata"), (ONE, TWO, THREE), world.now)
    assert world.client.least_loaded((ONE, THREE), world.now) == ONE
    world.now += 1.0
    world.client.poll(world.now)
    answer(world.connections[1])
    world.outcomes()
    assert world.client.least_loaded((ONE, THREE), world.now) == THREE
    answer(world.connections[0])
    world.outcomes()
    assert world.client.least_loaded((ONE, THREE), world.now) == ONE


@pytest.mark.parametrize(("api", "peers"), [(Api.PRODUCE, (ONE, TWO)), (Api.METADATA, (ONE,))])
async def test_a_request_that_changes_something_or_has_one_broker_is_sent_once(
    world: ObservedClient, api: Api, peers: tuple[Node, ...]
) -> None:
    await world.connected(ONE)
    other = await world.connected(TWO)
    world.client.send_to_any(1, Ask("change", api), peers, world.now)
    world.now += 5.0
    world.client.poll(world.now)
    assert other.written == []


async def test_a_broker_whose_last_connection_failed_comes_after_untried_ones(
    world: ObservedClient,
) -> None:
    await (await world.connected(ONE)).breaks()
    world.now += 10.0
    world.client.random = Random(7)
    assert {world.client.least_loaded((ONE, TWO), world.now) for _ in range(50)} == {TWO}
