"""Topics and brokers that are not known yet, what is said of them, and cold starts."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.cluster.snapshot import TopicInfo
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.requests import CoordinatorRequest
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    FatalTransactionError,
    KafkaError,
    MetadataTimeoutError,
    ProtocolError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from aioproducer.foundation.tuning import METADATA_STEPS_PER_TURN
from tests.support.operations import counted_lines
from tests.support.responses import identity_response, metadata_response, unread
from tests.support.world import BACKOFF, BOOT, BROKERS, DELIVERY, MAX_BLOCK
from tests.unit.sender.transactions import COMMIT, VERSIONS, written
from tests.unit.sender.world import (
    SenderWorld,
    coordinator_answer,
    running,
    states,
    transactional,
)

THEIRS = {number: node._replace(host=f"elsewhere{number}") for number, node in BROKERS.items()}
"""The brokers of another cluster have the same ids."""


@pytest.mark.parametrize("code", [17, 29])
async def test_a_fatal_error_of_a_topic_reaches_whoever_waits_at_once(code: int) -> None:
    async with running(known=False) as world:
        futures = [world.send() for _ in range(3)]
        await world.tell_metadata(code=code)
        for future in futures:
            error = future.exception()
            assert isinstance(error, KafkaError)
            assert error.code == code
            assert "'orders'" in str(error)


async def test_an_odd_error_of_a_partition_does_not_hide_its_leader() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        answer = metadata_response("orders", (1,), 0, BROKERS, 5, partition_code=9999)
        await world.complete(world.one(MetadataRequest), answer)
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_an_auto_created_topic_is_used_as_soon_as_it_has_leaders() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(code=5)
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_no_bootstrap_server_answers() -> None:
    async with running(known=False) as world:
        world.network.unreachable.add(BOOT.id)
        world.network.reasons[BOOT.id] = BrokerConnectionError(f"{BOOT}: refused")
        future = world.send()
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        for part in ("boot:9092: refused", "bootstrap_servers", "'orders'"):
            assert part in str(error)


async def test_who_waits_for_metadata_is_told_that_no_broker_lets_it_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(known=False) as world:
        world.network.unreachable.add(BOOT.id)
        futures = [world.send() for _ in range(2)]
        await world.turn()
        world.network.has_refused_logins = True
        world.wakeup.wake()
        await world.turn()
        assert not any(future.done() for future in futures), "a broker may let it in yet"
        world.network.refused = AuthenticationError("wrong password")
        world.wakeup.wake()
        await world.turn()
        errors = [future.exception() for future in futures]
        assert [type(error) for error in errors] == [AuthenticationError] * 2
        assert errors[0] is not world.network.refused, "each raise adds a traceback to its own"
        assert caplog.messages == ["2 pending records for orders failed: wrong password"]
        assert caplog.records[0].levelno == logging.ERROR


async def test_records_may_outlast_refused_logins() -> None:
    async with running(known=False) as world:
        world.accumulator.pending.fails_at_refused_logins = False
        world.network.unreachable.add(BOOT.id)
        future = world.send()
        world.network.has_refused_logins = True
        world.network.refused = AuthenticationError("wrong password")
        await world.turn()
        assert not future.done()
        await world.turn(MAX_BLOCK)
        assert isinstance(future.exception(), BootstrapError)


async def test_records_that_know_their_partition_are_not_refused() -> None:
    async with running() as world:
        world.network.has_refused_logins = True
        world.network.refused = AuthenticationError("wrong password")
        future = world.send()
        await world.turn()
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_bootstrap_servers_that_answer_with_a_refusal_say_so() -> None:
    """It is not the connection that is at fault, so its state explains nothing."""
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        too_old = UnsupportedVersionError("the broker supports METADATA versions 0 to 3")
        await world.complete(world.one(MetadataRequest), error=too_old)
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        assert str(too_old) in str(error)


async def test_a_broker_that_knows_topics_but_no_brokers_yet() -> None:
    """It has just started. What it says can't be used, and must not end the producer."""
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(brokers={})
        assert not future.done()
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert future.done()


# --- long answers -------------------------------------------------------------------------------


async def test_a_long_answer_is_taken_in_some_steps_at_a_time() -> None:
    """Between them the sender sends, and the loop is everybody's."""
    async with running() as world:
        future = world.send(topic="wide")
        await world.turn()
        partitions = 20 * METADATA_STEPS_PER_TURN
        answer = metadata_response("wide", [1] * partitions, 0, BROKERS, 5)
        node, request = world.one(MetadataRequest)
        world.network.completed.append(Completion(request, node, request.read(answer), None, 0.1))
        world.wakeup.wake()
        turns = 0
        while "wide" not in world.metadata.snapshot.topics:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 20 / 3
        assert not world.requests(ProduceRequest), "its partitions are not all there yet"
        assert world.metadata.next_refresh() is None
        other = world.send(topic="orders")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        sent = world.requests(ProduceRequest)
        (batch, _), *more = sent[0][1].batches
        assert (batch.topic_partition.topic, more) == ("orders", []), "others do not wait for it"
        await world.answer(sent[0])
        assert (await other).offset == 42
        sent = world.requests(ProduceRequest)
        await world.answer(sent[0])
        assert (await future).partition == 0
        assert len(world.accumulator._topics["wide"].partitions) == partitions


@pytest.mark.source_form
async def test_no_step_of_an_answer_takes_more_than_one_turn_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By count, not by time: each call does at most so many steps of each kind of work."""
    async with running(known=False) as world:
        world.send(topic="wide")
        await world.turn()
        made = 0
        init = Partition.__init__

        def count(partition: Partition, *given: Any) -> None:
            nonlocal made
            made += 1
            init(partition, *given)

        monkeypatch.setattr(Partition, "__init__", count)
        answer = metadata_response("wide", [1] * 1000, 0, BROKERS, 5)
        node, request = world.one(MetadataRequest)
        refresher = world.refresher
        most = 0
        refresher.completed(Completion(request, node, request.read(answer), None, 0.1), world.now)
        refresher.due = world.now
        while refresher.due == world.now:
            refresher.step(world.now)
            most, made = max(most, made), 0
        assert 0 < most <= METADATA_STEPS_PER_TURN
        assert len(world.accumulator._topics["wide"].partitions) == 1000


async def test_what_is_known_already_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as world:
        told: list[str] = []
        accumulator = world.accumulator

        class Told:
            def update_topic(self, info: TopicInfo, *others: Any) -> int:
                told.append(info.name)
                return accumulator.update_topic(info, *others)

            def __getattr__(self, name: str) -> Any:
                return getattr(accumulator, name)

        monkeypatch.setattr(world.refresher, "_accumulator", Told())
        for leaders, changed in (([1, 1], []), ([1, 2], ["orders"]), ([1, 2], ["orders"])):
            world.metadata.request_update()
            await world.turn(BACKOFF)
            await world.tell_metadata(leaders)
            assert told == changed


async def test_an_answer_that_cannot_be_understood_changes_nothing_and_ends_its_connection() -> (
    None
):
    async with running() as world:
        waiting = world.send(topic="wide")
        await world.turn()
        whole = metadata_response("wide", [1] * 500, 0, {}, 5)
        refused: list[ProtocolError] = []
        damaged = unread(whole._version, whole._body[:-7], refused.append)
        await world.complete(world.one(MetadataRequest), damaged)
        (error,) = refused
        assert "can't be understood" in str(error)
        assert "wide" not in world.metadata.snapshot.topics
        assert dict(world.metadata.snapshot.brokers) == BROKERS
        await world.turn(BACKOFF)
        await world.tell_metadata([1], topic="wide")
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).offset == 42


# --- partitions that are not known --------------------------------------------------------------


async def test_a_partition_beyond_the_known_ones_is_asked_for_and_waited_for() -> None:
    async with running() as world:
        values = [b"1", b"2", b"3"]
        futures = [world.send(value, partition=3) for value in values]
        beside = world.send(partition=1)
        await world.turn(BACKOFF)
        (asked,) = world.requests(MetadataRequest)
        assert asked[1].asked == (frozenset({"orders"}), False)
        await world.answer(world.one(ProduceRequest))
        assert beside.done()
        await world.complete(asked, metadata_response("orders", (1, 1, 1), 0, BROKERS, 5))
        assert not world.requests(ProduceRequest)
        await world.turn(BACKOFF * 2)
        await world.tell_metadata((1, 1, 1, 2))
        node, request = world.one(ProduceRequest)
        ((batch, _),) = request.batches
        assert (node, batch.builder.tokens) == (2, futures), "in the order of their sends"
        await world.turn(BACKOFF * 20)
        assert not world.requests(MetadataRequest), "nobody wants more"


async def test_a_partition_that_never_comes() -> None:
    async with running(pending_memory=1_000_000) as world:
        began = world.now
        asked = 0
        future = world.send(partition=7)
        while not future.done():
            await world.turn(BACKOFF / 2)
            world.send(partition=7)
            for sent in world.requests(MetadataRequest):
                asked += 1
                await world.complete(sent, metadata_response("orders", (1, 1), 0, BROKERS, 5))
        assert world.now - began == pytest.approx(MAX_BLOCK, abs=1)
        assert asked < MAX_BLOCK * 1.2, "about once in a second, whoever sends meanwhile"
        with pytest.raises(MetadataTimeoutError, match="partitions 0 to 1") as raised:
            await future
        assert "partition 7 of topic 'orders' is unknown after 60" in str(raised.value)
        assert isinstance(raised.value, TimeoutError)


async def test_a_topic_that_was_deleted_is_asked_for_alone() -> None:
    async with running() as world:
        world.send(partition=0)
        await world.turn()
        for sent in world.requests(ProduceRequest):
            await world.answer(sent, code=3)
        for _ in range(5):
            await world.turn(1.5)
            for sent in world.requests(ProduceRequest):
                await world.answer(sent, code=3)
            for sent in world.requests(MetadataRequest):
                assert sent[1].asked == (frozenset({"orders"}), False)
                await world.complete(sent, metadata_response("orders", (), 3, BROKERS, 5))


# --- another cluster ----------------------------------------------------------------------------


async def test_the_client_hears_which_cluster_is_meant() -> None:
    async with running(known=False, rebootstrap_after=300.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        assert world.network.cluster_id == "ours"


async def test_metadata_of_another_cluster_is_refused_if_the_first_one_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(known=False, rebootstrap_after=300.0, same_cluster=True) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        await world.answer(world.one(ProduceRequest))
        waiting = world.send(topic="other")
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(topic="other", brokers=THEIRS, cluster="theirs")
        assert not waiting.done()
        [(node, reason)] = world.network.ended
        assert node in BROKERS
        assert isinstance(reason, RebootstrapRequiredError)
        for part in ("'theirs'", "'ours'", "'same_cluster'", "host1:9092"):
            assert part in str(reason)
        assert caplog.messages[-1] == str(reason)
        assert world.metadata.foreign is not None
        assert world.metadata.snapshot.brokers == {}, "it begins again"
        assert list(world.metadata.peers) == [BOOT]
        await world.turn(BACKOFF * 4)
        await world.tell_metadata(topic="other", brokers=THEIRS, cluster="theirs")
        assert world.network.ended[-1][0] == BOOT.id
        await world.turn(BACKOFF * 10)
        await world.tell_metadata(topic="other", cluster="ours")
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).topic == "other"
        assert world.metadata.foreign is None


async def rebootstrapped(world: SenderWorld, cluster: str = "theirs") -> None:
    """The bootstrap server names ``cluster``, after a broker has turned out to be another one."""
    world.network.misrouted(world.now)
    await world.turn(BACKOFF * 10)
    (sent,) = world.requests(MetadataRequest)
    assert sent[0] == BOOT.id
    assert sent[1].asked.full
    response = metadata_response("orders", (1, 2), 0, THEIRS, 0, cluster_id=cluster)
    await world.complete(sent, response)


def naming_both(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno == level and "'ours'" in each.message and "'theirs'" in each.message
    ]


async def lose_in_flight(world: SenderWorld) -> None:
    """The connections end, and with them the requests without an answer."""
    for sent in world.requests(ProduceRequest):
        await world.complete(sent, error=BrokerConnectionError("another cluster answers now"))


async def test_batches_go_to_the_cluster_that_bootstrap_servers_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options: dict[str, Any] = {"known": False, "idempotent": True, "rebootstrap_after": 300.0}
    async with running(**options) as world:
        world.send(b"ours")
        await world.tell_metadata(cluster="ours")
        await world.complete(world.one(InitProducerIdRequest), identity_response(7))
        await world.answer(world.one(ProduceRequest))
        doubtful = world.send(b"in doubt")
        await world.turn()
        lost = world.one(ProduceRequest)
        assert states(lost) == [(7, 1)]
        await rebootstrapped(world)
        assert [node for node, _ in world.network.ended] == [1]
        later = world.send(b"later")
        await world.turn()
        await world.complete(world.one(InitProducerIdRequest), identity_response(7))
        await world.turn(BACKOFF * 2)
        await world.complete(world.one(InitProducerIdRequest), identity_response(8))
        assert world.requests(ProduceRequest) == [], "the first one may still be answered"
        await world.complete(lost, error=BrokerConnectionError("another cluster answers now"))
        assert not doubtful.done()
        await world.turn(BACKOFF * 10)
        sent = world.one(ProduceRequest)
        assert states(sent) == [(8, 0)], "another id than the former cluster's, from the beginning"
        await world.answer(sent, offset=0)
        await world.turn(BACKOFF * 10)
        sent = world.one(ProduceRequest)
        assert states(sent) == [(8, 1)]
        await world.answer(sent, offset=1)
        assert [(await each).offset for each in (doubtful, later)] == [0, 1]
        [line] = naming_both(caplog)
        assert "instead of cluster 'ours'" in line
        assert world.network.cluster_id == "theirs"
        assert world.metadata.foreign is None


async def test_a_record_in_doubt_that_expires_may_have_been_written_to_the_former_cluster() -> None:
    options: dict[str, Any] = {"known": False, "idempotent": True, "rebootstrap_after": 300.0}
    async with running(**options) as world:
        doubtful = world.send(b"in doubt")
        await world.tell_metadata(cluster="ours")
        await world.complete(world.one(InitProducerIdRequest), identity_response(7))
        await world.turn()
        await rebootstrapped(world)
        await lose_in_flight(world)
        unsent = world.send(b"unsent")
        await world.turn(DELIVERY + 1)
        errors = [each.exception() for each in (doubtful, unsent)]
        assert [getattr(each, "may_have_been_written", None) for each in errors] == [True, False]


async def test_known_brokers_that_are_silent_make_the_bootstrap_servers_decide() -> None:
    """No request leaves, so none can fail: the addresses of brokers that moved take no packets."""
    async with running(known=False, rebootstrap_after=60.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        await world.answer(world.one(ProduceRequest))
        world.network.unreachable.update(BROKERS)
        world.send(topic="other")
        await world.turn(BACKOFF * 2)
        assert world.requests(MetadataRequest) == []
        await world.turn(60.0)
        assert world.one(MetadataRequest)[0] == BOOT.id
        assert [node for node, _ in world.network.ended] == [BOOT.id], "its name is resolved anew"


async def test_a_known_broker_of_another_cluster_makes_the_bootstrap_servers_decide(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(known=False, rebootstrap_after=300.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        await world.answer(world.one(ProduceRequest))
        waiting = world.send(topic="other")
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(topic="other", brokers=THEIRS, cluster="theirs")
        [(node, reason)] = world.network.ended
        assert node in BROKERS
        assert "bootstrap_servers" in str(reason)
        assert world.metadata.snapshot.brokers == {}
        assert world.metadata.cluster_id == "ours"
        assert naming_both(caplog) == [], "nothing is decided yet"
        await world.turn(BACKOFF * 10)
        sent = world.one(MetadataRequest)
        assert sent[0] == BOOT.id
        await world.complete(
            sent, metadata_response("other", (1,), 0, BROKERS, 5, cluster_id="ours")
        )
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).topic == "other"


async def test_without_the_check_a_known_broker_names_the_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(known=False, check_cluster=False) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        await world.answer(world.one(ProduceRequest))
        waiting = world.send(topic="other")
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(topic="other", brokers=THEIRS, cluster="theirs")
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).topic == "other"
        assert len(naming_both(caplog)) == 1
        assert world.network.cluster_id is None
        await world.turn(BACKOFF * 10)
        asked = world.one(MetadataRequest)[1].asked
        assert asked.full, "the other topics are asked for, too"


async def test_a_topic_that_the_other_cluster_lacks_has_no_leader() -> None:
    options: dict[str, Any] = {"known": False, "rebootstrap_after": 300.0}
    async with running(**options) as world:
        world.send(topic="gone")
        await world.tell_metadata(topic="gone", cluster="ours")
        await world.answer(world.one(ProduceRequest))
        await rebootstrapped(world)
        waiting = world.send(topic="gone")
        await world.turn()
        assert world.requests(ProduceRequest) == []
        await world.turn(BACKOFF * 10)
        await world.tell_metadata(topic="gone", brokers=THEIRS, cluster="theirs", epoch=0)
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).topic == "gone"


async def test_the_epochs_of_leaders_are_those_of_the_other_cluster() -> None:
    async with running(known=False, rebootstrap_after=300.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours", epoch=900)
        await world.answer(world.one(ProduceRequest))
        await rebootstrapped(world)
        info = world.metadata.snapshot.topics["orders"]
        assert [(each.leader, each.leader_epoch) for each in info.partitions] == [(1, 0), (2, 0)]


@VERSIONS
async def test_no_transaction_goes_on_in_another_cluster(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"version": version, "rebootstrap_after": 300.0}
    async with transactional(**options) as world:
        world.manager.begin()
        world.metadata.cluster_id = "ours"
        await written(world)
        doubtful, unsent = world.send(), world.send(partition=1)
        await world.turn()
        await rebootstrapped(world)
        for future, maybe in ((doubtful, True), (unsent, version == 2)):
            error = future.exception()
            assert isinstance(error, FatalTransactionError)
            assert "'theirs' answers instead of cluster 'ours'" in str(error)
            assert error.may_have_been_written is maybe
        assert world.state() is TransactionState.FATAL_ERROR
        assert world.changes, "callers are told"
        assert len(naming_both(caplog)) == 1
        await world.turn(DELIVERY)
        assert world.requests(ProduceRequest)[1:] == []


async def test_a_commit_on_its_way_to_the_former_cluster_may_have_been_done() -> None:
    async with transactional(version=2, rebootstrap_after=300.0) as world:
        world.manager.begin()
        world.metadata.cluster_id = "ours"
        await written(world)
        ending = world.manager.commit()
        await world.turn()
        sent = world.one(CoordinatorRequest)
        assert sent[1] == COMMIT
        await rebootstrapped(world)
        assert ending.error is not None
        await world.complete(sent, coordinator_answer(COMMIT))
        assert world.state() is TransactionState.FATAL_ERROR, "no response counts any more"
        assert ending.may_be_done
        with pytest.raises(FatalTransactionError, match="may have succeeded"):
            raise world.manager.failure("commit", ending.error)


async def test_a_producer_without_an_identity_gets_it_from_the_other_cluster() -> None:
    options: dict[str, Any] = {"known": False, "transactional_id": "t", "rebootstrap_after": 300.0}
    async with running(**options) as world:
        world.metadata.use("orders", world.now)
        await world.tell_metadata(cluster="ours")
        await rebootstrapped(world)
        assert world.state() is TransactionState.UNINITIALIZED


async def test_a_cluster_without_an_id_is_not_another_one() -> None:
    async with running(known=False, rebootstrap_after=300.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        await world.answer(world.one(ProduceRequest))
        waiting = world.send(topic="other")
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(topic="other", cluster=None)
        await world.answer(world.one(ProduceRequest))
        assert (await waiting).topic == "other"
        assert world.metadata.cluster_id == "ours"


async def test_a_wrong_broker_makes_the_producer_start_from_its_bootstrap_servers() -> None:
    async with running(known=False, rebootstrap_after=300.0) as world:
        world.send()
        await world.tell_metadata(cluster="ours")
        world.network.misrouted(world.now)
        assert list(world.metadata.peers) == [BOOT]
        await world.turn(BACKOFF * 2)
        assert world.one(MetadataRequest)[0] == BOOT.id


FEW, MANY = 20, 200
ROUNDING = 1.15


async def _first_record(world: SenderWorld, topic: str) -> None:
    """The first record to ``topic``: one request asks for this topic, and one takes the record."""
    future = world.send(topic=topic)
    await world.turn()
    node, request = world.one(MetadataRequest)
    assert request.asked == (frozenset({topic}), False)
    await world.complete((node, request), metadata_response(topic, [1], 0, BROKERS, 5))
    await world.answer(world.one(ProduceRequest))
    assert (await future).offset == 42


async def test_each_of_many_topics_costs_the_same() -> None:
    """By count of lines in all rooms, and of topics in requests."""
    async with running() as world:
        lines = []
        for some in (range(FEW), range(FEW, MANY), range(MANY, MANY + FEW)):
            with counted_lines() as counted:
                for number in some:
                    await _first_record(world, f"topic-{number}")
            lines.append(counted.count / len(some))
        first, _, last = lines
        assert last <= first * ROUNDING


async def test_many_topics_at_once_are_asked_for_together() -> None:
    async with running(pending_memory=10_000_000) as world:
        for number in range(2_100):
            world.send(topic=f"topic-{number}")
        asked = 0
        for together in (2_000, 100):
            await world.turn()
            node, request = world.one(MetadataRequest)
            assert len(request.asked.topics) == together
            asked += together
            topic = min(request.asked.topics)
            await world.complete((node, request), metadata_response(topic, [1], 0, BROKERS, 5))
        assert asked == 2_100
