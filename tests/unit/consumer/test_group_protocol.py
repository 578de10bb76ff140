"""The protocol that a member chooses, and the groups that change between its look and its join."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from typing import Any, Final

import pytest

from aioproducer.consumer import Consumer
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.engine.groups.requests import ClassicGroup, GroupKind
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownServerError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC
from aioproducer.testing.simulation.kafka.requests import apis
from aioproducer.testing.simulation.kafka.requests.metadata import api_versions
from tests.support.simulated_world import consumer, fill, live, model_of

DESCRIBES: Final = Api.DESCRIBE_GROUPS
HEARTBEATS: Final = Api.CONSUMER_GROUP_HEARTBEAT


def member(world: SimulatedWorld, *topics: Any, **options: Any) -> Consumer:
    """A member that has no option but those that are given."""
    return Consumer(
        *(topics or ("orders",)),
        group_id="g",
        bootstrap_servers=world.cluster.bootstrap_servers,
        **{"auto_offset_reset": "earliest", **options},
    )


def error_of(code: int) -> type[KafkaError]:
    return type("Error", (KafkaError,), {"code": code})


def set_policy(world: SimulatedWorld, policy: str) -> None:
    cluster = model_of(world).cluster
    cluster.options = replace(cluster.options, group_consumer_migration_policy=policy)


def leave_out_the_api(world: SimulatedWorld, patch: pytest.MonkeyPatch, *brokers: int) -> None:
    """Have ``brokers`` be as old as those that have no members of KIP-848."""

    def versions(call: Any) -> Any:
        old = call.broker in brokers
        return api_versions(
            call, {k: v for k, v in apis.RANGES.items() if not old or k != HEARTBEATS}
        )

    patch.setitem(apis.HANDLERS, Api.API_VERSIONS, versions)


async def joined(reader: Consumer, partitions: int) -> str | None:
    """The protocol of a member, once it has so many partitions."""
    for _ in range(1_200):
        health = reader.health()
        if (health.partitions == partitions and health.state == "joined") or not health.is_live:
            break
        await asyncio.sleep(0.1)
    assert (health.partitions, health.state) == (partitions, "joined"), health
    metrics: Any = reader.metrics()["consumer-coordinator-metrics"]
    assert metrics["uses-consumer-protocol"] == float(health.group_protocol == "consumer")
    return health.group_protocol


def kind_of_group(world: SimulatedWorld) -> str:
    return type(model_of(world).coordinators.groups.find("g")).__name__


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "this member uses the" in text]


# --- the group as it is found ------------------------------------------------------------------


def test_a_new_group_is_one_of_kip_848(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def life(world: SimulatedWorld) -> None:
        async with member(world) as first:
            assert first.health().group_protocol is None
            assert await joined(first, 4) == "consumer"
            async with member(world, re.compile("ord.*")) as second:
                assert await joined(second, 2) == "consumer"

    live(life, 4)
    first, second = told(caplog)
    why = "this member uses the consumer protocol: the group is new, or uses it already"
    assert first.endswith(why)
    assert second.endswith(why)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("policy", ["bidirectional", "disabled"])
def test_a_group_of_classic_members_is_joined_by_their_strategy(strategy: str, policy: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        set_policy(world, policy)
        async with consumer(world, partition_assignment_strategy=strategy) as theirs:
            await joined(theirs, 4)
            async with member(world) as ours:
                assert await joined(ours, 2) == "classic"
                assert ours._member._settings.assignors == (strategy,)
                assert kind_of_group(world) == "ClassicGroup"
                assert not theirs.health().problems

    live(life, 4)


def test_a_group_whose_first_rebalance_is_under_way_is_joined_by_the_strategy_that_it_gets() -> (
    None
):
    async def life(world: SimulatedWorld) -> None:
        options: Any = {"partition_assignment_strategy": "roundrobin"}
        async with consumer(world, client_id="1", **options) as theirs:  # gets the odd partition
            await asyncio.sleep(1)
            async with member(world) as ours:
                assert await joined(ours, 2) == await joined(theirs, 2) == "classic"
            await fill(world, 10, 4)
            await anext(aiter(theirs))  # it holds up the rebalance that another one begins
            async with consumer(world, client_id="2", **options) as another:
                await asyncio.sleep(10)
                assert theirs.health().state == "rebalancing"
                async with member(world, client_id="3") as ours:
                    await asyncio.sleep(100)
                    await theirs.commit()
                    assert await joined(ours, 1) == await joined(another, 1) == "classic"

    live(life, 4)


@pytest.mark.parametrize("policy", ["bidirectional", "disabled"])
def test_an_empty_group_goes_over_with_its_offsets(policy: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        set_policy(world, policy)
        await fill(world, 40, 4)
        async with consumer(world) as theirs:
            records = aiter(theirs)
            for _ in range(10):
                await anext(records)
            await theirs.commit()
        async with member(world) as ours:
            assert await joined(ours, 4) == "consumer"
            read = [(await anext(aiter_)).value for aiter_ in [aiter(ours)] for _ in range(30)]
        assert len(set(read)) == 30
        assert kind_of_group(world) == "ConsumerGroup"

    live(life, 4)


def test_a_broker_without_the_protocol_has_classic_members(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)

    async def life(world: SimulatedWorld) -> None:
        leave_out_the_api(world, monkeypatch, 1)
        async with member(world) as first, member(world) as second:
            assert await joined(first, 2) == await joined(second, 2) == "classic"

    live(life, 4)
    assert "has no other: it is older than Kafka 4.0" in told(caplog)[0]


@pytest.mark.parametrize(
    "group",
    [
        ClassicGroup(0, "connect", "compatible", has_members=True),
        ClassicGroup(0, "consumer", "my-own", has_members=True),
    ],
)
def test_a_group_that_no_consumer_can_join_is_an_error(
    group: ClassicGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(*_: Any) -> Any:
        return group, True

    async def life(world: SimulatedWorld) -> None:
        monkeypatch.setattr(CoordinatorLink, "describe", describe)
        async with member(world) as reader:
            with pytest.raises(KafkaError, match="use another group_id") as at:
                await anext(aiter(reader))
            assert "'connect'" in str(at.value) or "'my-own'" in str(at.value)
            assert not reader.health().is_live

    live(life)


def test_a_share_group_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def life(world: SimulatedWorld) -> None:
        monkeypatch.setattr(GroupKind, "read", lambda *_: ("share", "share"))
        world.cluster.fail_next(HEARTBEATS, GroupIdNotFoundError, times=1_000)
        async with member(world) as reader, asyncio.timeout(20):
            with pytest.raises(GroupIdNotFoundError, match="type 'share', not of consumers; use"):
                await anext(aiter(reader))

    live(life)


def test_a_group_that_may_not_be_described_is_joined() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.fail_next(DESCRIBES, GroupAuthorizationFailedError)
        async with member(world) as reader:
            assert await joined(reader, 1) == "classic"

    live(life)


def test_a_description_is_asked_for_again_until_a_coordinator_answers() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.lose_next_response(DESCRIBES, times=3)
        world.cluster.stall(1)
        async with member(world) as reader:
            await asyncio.sleep(100)
            assert reader.health().group_protocol is None
            world.cluster.release(1)
            assert await joined(reader, 1) == "consumer"

    live(life)


def test_a_member_that_is_closed_before_its_choice_joins_no_group() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.stall(1)
        reader = member(world)
        await reader.start()
        await asyncio.sleep(20)
        began = world.now
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0.01)
        world.cluster.release(1)
        await closing
        assert world.now - began < 12
        await asyncio.sleep(60)
        assert model_of(world).coordinators.groups.find("g") is None

    live(life)


# --- groups that change ------------------------------------------------------------------------

REFUSALS: Final[list[tuple[int, type[KafkaError], str]]] = [
    (HEARTBEATS, GroupIdNotFoundError, "consumer"),
    (HEARTBEATS, UnknownServerError, "consumer"),
    (HEARTBEATS, error_of(ErrorCode.UNSUPPORTED_VERSION), "classic"),
]


@pytest.mark.parametrize(("api", "error", "protocol"), REFUSALS)
@pytest.mark.parametrize("later", [False, True])
def test_a_group_that_refuses_the_protocol_is_looked_at_again(
    api: int, error: type[KafkaError], protocol: str, later: bool
) -> None:
    async def life(world: SimulatedWorld) -> None:
        lost: list[int] = []
        await fill(world, 4, 4)
        reader = member(world, on_lost=lambda partitions: lost.append(len(partitions)))
        if not later:
            world.cluster.fail_next(api, error)
        async with reader:
            if later and error is not UnknownServerError:
                assert await joined(reader, 4) == "consumer"
                world.cluster.fail_next(api, error)
                await asyncio.sleep(10)
                assert lost == [4]
            assert await joined(reader, 4) == protocol
            assert {(await anext(records)).partition for records in [aiter(reader)] for _ in "1234"}

    live(life, 4)


def test_a_group_of_members_of_another_protocol_is_joined_by_theirs() -> None:
    """Classic members have come between the look and the join, or those of KIP-848."""

    async def life(world: SimulatedWorld) -> None:
        set_policy(world, "disabled")
        describe = CoordinatorLink.describe
        with pytest.MonkeyPatch.context() as patch:

            async def late(self: CoordinatorLink, timeout: float) -> Any:
                found = await describe(self, timeout)
                patch.undo()
                await others.start()
                await joined(others, 4)
                return found

            others = consumer(world, partition_assignment_strategy="sticky")
            patch.setattr(CoordinatorLink, "describe", late)
            async with member(world) as reader:
                assert await joined(reader, 2) == "classic"
            await others.close()
        async with consumer(world) as classic:
            await joined(classic, 4)
            others = member(world, group_protocol="consumer")
            with pytest.MonkeyPatch.context() as patch:

                async def later(self: CoordinatorLink, timeout: float) -> Any:
                    found = await describe(self, timeout)
                    patch.undo()
                    await classic.close()
                    await others.start()
                    await joined(others, 4)
                    return found

                patch.setattr(CoordinatorLink, "describe", later)
                async with member(world) as reader:
                    assert await joined(reader, 2) == "consumer"
            await others.close()

    live(life, 4)


@pytest.mark.parametrize("error", [GroupIdNotFoundError, UnknownServerError])
def test_a_group_that_goes_on_to_refuse_is_an_error(error: type[KafkaError]) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.fail_next(HEARTBEATS, error, times=1_000)
        async with member(world) as reader, asyncio.timeout(60):
            with pytest.raises(error):
                await anext(aiter(reader))
            assert world.now > 1, "it has tried again"

    live(life)


def test_a_member_that_comes_back_looks_at_the_group_again() -> None:
    """It left because nobody asked for records; meanwhile classic members have come."""

    async def life(world: SimulatedWorld) -> None:
        set_policy(world, "disabled")
        await fill(world, 40, 4)
        async with member(world, max_poll_interval_ms=30_000) as reader:
            records = aiter(reader)
            await anext(records)
            assert reader.health().group_protocol == "consumer"
            await asyncio.sleep(60)
            assert not reader.assignment
            async with consumer(world) as theirs:
                await joined(theirs, 4)
                task = asyncio.create_task(read(reader))
                assert await joined(reader, 2) == "classic"
                task.cancel()
                await asyncio.sleep(40)  # nobody asks again
                assert not reader.assignment
            task = asyncio.create_task(read(reader))
            assert await joined(reader, 4) == "consumer"
            task.cancel()

    async def read(reader: Consumer) -> None:
        async for _ in reader:
            pass

    live(life, 4)


def test_a_coordinator_without_the_protocol_makes_a_member_classic_and_it_stays_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers are replaced by older ones, one after another, or by newer ones."""
    caplog.set_level(logging.INFO)

    async def life(world: SimulatedWorld) -> None:
        def move(broker: int) -> None:
            where = model_of(world).coordinators.groups.partition_of("g").where
            world.cluster.move_leader(GROUPS_TOPIC, where.partition, broker)

        leave_out_the_api(world, monkeypatch, 2)
        move(1)
        await fill(world, 10, 1)
        async with member(world) as first, member(world) as second:
            assert await joined(first, 2) == await joined(second, 2) == "consumer"
            move(2)
            await asyncio.sleep(60)
            assert await joined(first, 2) == await joined(second, 2) == "classic"
            for broker in (1, 2, 1):
                move(broker)
                await asyncio.sleep(30)
                assert await joined(first, 2) == await joined(second, 2) == "classic"

    live(life, 4, brokers=2)
    assert len(told(caplog)) == 4


def test_a_static_member_keeps_its_partitions_with_the_protocol_that_it_chooses() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with member(world) as other:
            for _ in range(3):
                async with member(world, group_instance_id="a") as static:
                    assert await joined(static, 2) == "consumer"
                    had = static.assignment
                    assert static.health().member_id
                await asyncio.sleep(1)
                assert await joined(other, 2) == "consumer"
                assert not had & other.assignment

    live(life, 4)


def test_a_member_keeps_its_id_while_it_is_in_the_group() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world) as theirs:
            await joined(theirs, 4)
            async with member(world) as reader:
                await joined(reader, 2)
                member_id = reader.health().member_id
                world.cluster.fail_next(Api.HEARTBEAT, error_of(ErrorCode.ILLEGAL_GENERATION))
                await asyncio.sleep(60)
                assert await joined(reader, 2) == "classic"
                assert reader.health().rebalances > 1
                assert reader.health().member_id == member_id

    live(life, 4)
