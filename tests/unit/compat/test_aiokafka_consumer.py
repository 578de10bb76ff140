"""The consumer with aiokafka's interface, in a simulated world."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.roundrobin import (  # type: ignore[import-untyped]
    RoundRobinPartitionAssignor,
)
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (  # type: ignore[import-untyped]
    StickyPartitionAssignor,
)
from aiokafka.structs import (  # type: ignore[import-untyped]
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)

from aioproducer import ConfigError, Producer
from aioproducer import errors as ours
from aioproducer.admin import Admin
from aioproducer.compat.aiokafka import AIOKafkaConsumer
from aioproducer.compat.aiokafka.options import AIOKafkaConsumerOptions
from aioproducer.engine.protocol import Api
from aioproducer.errors import KafkaError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import tuning
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.simulated_world import Life, fill

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHER = TopicPartition("other", 0)


class InvalidSessionTimeoutError(KafkaError):
    """Kafka's error, which has no class here."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


def live(life: Life, partitions: int = 1, **others: int) -> None:
    simulate(life, topics={"orders": partitions, **others})


def consumer(world: SimulatedWorld, *topics: str, **options: Any) -> AIOKafkaConsumer:
    defaults = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 1_000}
    servers = world.cluster.bootstrap_servers.split(",")
    return AIOKafkaConsumer(*topics, bootstrap_servers=servers, **{**defaults, **options})


async def write(world: SimulatedWorld, topic: str, *values: bytes, partition: int = 0) -> None:
    """Records, each in a batch of its own."""
    async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        for value in values:
            await producer.send(topic, value, partition=partition)


async def every(seconds: float) -> AsyncIterator[None]:
    while True:
        await asyncio.sleep(seconds)
        yield


def values(found: dict[Any, list[Any]]) -> list[int]:
    return sorted(int(each.value) for records in found.values() for each in records)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Any]]] = []

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.calls.append(("revoked", revoked))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.calls.append(("assigned", assigned))


# --- options -----------------------------------------------------------------------------------


def test_the_signature_is_aiokafkas_with_one_more_option() -> None:
    own = inspect.signature(AIOKafkaConsumer).parameters
    known = inspect.signature(aiokafka.AIOKafkaConsumer).parameters
    assert set(own) == {*known, "metadata_recovery_strategy"}
    assert set(own) == {"topics", "loop", *AIOKafkaConsumerOptions.__annotations__}
    for name, parameter in known.items():
        if name not in ("client_id", "partition_assignment_strategy"):
            assert own[name].default == parameter.default, name
        assert own[name].kind == parameter.kind


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_poll_records": 0}, "`max_poll_records` should be positive"),
        ({"isolation_level": "READ_CCC"}, "Incorrect isolation level READ_CCC"),
        ({"security_protocol": "SOME"}, "`security_protocol` should be SSL or PLAINTEXT"),
        ({"security_protocol": "SSL"}, "`ssl_context` is mandatory"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl_plain_username and sasl_plain_password"),
        ({"auto_offset_reset": "begining"}, "auto_offset_reset"),
        ({"partition_assignment_strategy": ["mine"]}, "partition_assignment_strategy"),
        ({"partition_assignment_strategy": []}, "partition_assignment_strategy is empty"),
        ({"fetch_max_bytes": -1}, "fetch_max_bytes"),
        ({"sasl_kerberos_domain_name": "x", **dict.fromkeys(["group_id"])}, None),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str | None) -> None:
    if said is None:  # has no effect without GSSAPI
        AIOKafkaConsumer(**options)._closed = True
        return
    with pytest.raises(ConfigError, match=said):
        AIOKafkaConsumer(**options)
    with pytest.raises(ValueError, match=said):
        AIOKafkaConsumer("orders", **{"group_id": "g", **options})


def test_a_fetch_waits_for_less_than_the_request_timeout() -> None:
    reader = AIOKafkaConsumer(request_timeout_ms=400)
    assert reader._options.reading()["fetch_max_wait_ms"] == 399
    reader._closed = True


def test_options_that_have_no_effect_are_named() -> None:
    with pytest.warns(DeprecationWarning, match="api_version has no effect"):
        AIOKafkaConsumer(api_version="auto")._closed = True
    loop = asyncio.new_event_loop()
    with pytest.warns(DeprecationWarning, match="loop has no effect"):
        AIOKafkaConsumer(loop=loop)._closed = True
    loop.close()
    reader = AIOKafkaConsumer(exclude_internal_topics=False)
    with pytest.raises(ConfigError, match="exclude_internal_topics=False has no counterpart"):
        reader.subscribe(pattern=".*")
    reader._closed = True


def test_the_password_is_in_no_error() -> None:
    with pytest.raises(TypeError) as caught:
        AIOKafkaConsumer(sasl_plain_password="s3cret", sasl_pasword="s3cret")  # type: ignore[call-arg]
    frame = caught.value.__traceback__
    while frame is not None:
        assert "s3cret" not in repr(frame.tb_frame.f_locals.get("keywords"))
        frame = frame.tb_next


# --- reading -----------------------------------------------------------------------------------


def test_records_are_aiokafkas() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            headers = [("h", b"1")]
            await producer.send("orders", b"v", key=b"key", headers=headers, timestamp_ms=1_234)
            await producer.send("orders", None, key=b'"k"')
        async with consumer(world, "orders", key_deserializer=lambda key: key.upper()) as reader:
            first, second = await reader.getone(), await reader.getone()
        assert first == ConsumerRecord(
            "orders", 0, 0, 1_234, 0, b"KEY", b"v", None, 3, 1, (("h", b"1"),)
        )
        assert (second.value, second.serialized_value_size, second.headers) == (None, -1, ())

    live(life)


def test_a_group_goes_on_where_its_member_stopped() -> None:
    """As with aiokafka, a record that was returned is done."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 100, 2)
        async with consumer(world, "orders") as first:
            found = [await first.getone() for _ in range(30)]
            assert first.assignment() == {ZERO, ONE}
        async with consumer(world, "orders") as second:
            async for record in second:
                found.append(record)
                if len(found) == 100:
                    break
            assert await second.getmany(timeout_ms=100) == {}
        assert sorted(int(each.value) for each in found) == [*range(100)]

    live(life, 2)


def test_a_member_has_all_of_its_assignors() -> None:
    """So a group can change its strategy while it reads."""

    async def life(world: SimulatedWorld) -> None:
        both: Any = [StickyPartitionAssignor, RoundRobinPartitionAssignor]
        first = consumer(
            world, "orders", partition_assignment_strategy=[RoundRobinPartitionAssignor]
        )
        async with first, consumer(world, "orders", partition_assignment_strategy=both) as second:
            await asyncio.sleep(10)
            assert len(first.assignment()) == len(second.assignment()) == 1
            await first.stop()
            await asyncio.sleep(10)
            last = consumer(world, "orders", partition_assignment_strategy=["sticky"])
            async with last:
                await asyncio.sleep(10)
                assert len(second.assignment()) == len(last.assignment()) == 1

    live(life, 2)


def test_lists_are_bounded_by_records_and_bytes() -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, "orders", *[b"%d" % number for number in range(100)])
        async with consumer(world, "orders", max_poll_records=48) as reader:
            await reader.position(ZERO)
            await asyncio.sleep(2)
            sizes = [
                len((await reader.getmany(timeout_ms=1_000, max_records=most))[ZERO])
                for most in (None, 42, 100)
            ]
            assert sizes == [48, 42, 10]
            with pytest.raises(ValueError, match="`max_records` must be a positive Integer"):
                await reader.getmany(max_records=0)
        options = {"group_id": None, "max_partition_fetch_bytes": 4_000}
        await write(world, "other", b"small", b"l" * 50_000, b"small again")
        async with consumer(world, "other", **options) as reader:
            await reader.position(OTHER)
            await asyncio.sleep(2)
            for expected in (b"small", b"l" * 50_000, b"small again"):
                found = await reader.getmany(timeout_ms=1_000)
                assert [each.value for each in found[OTHER]] == [expected]

    live(life, 1, other=1)


def test_partitions_are_read_side_by_side() -> None:
    """A task that waits for a silent partition holds up no other one."""

    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, "orders") as reader:
            silent = asyncio.create_task(reader.getone(ONE))
            await asyncio.sleep(5)
            await write(world, "orders", b"1", b"2", b"3")
            async with asyncio.timeout(10):
                assert [(await reader.getone(ZERO)).offset for _ in range(2)] == [0, 1]
                assert (await reader.getmany(ONE, timeout_ms=100)) == {}
                assert (await reader.getone()).offset == 2
            assert not silent.done()
            await write(world, "orders", b"4", partition=1)
            assert (await silent).value == b"4"

    live(life, 2)


def test_tasks_share_the_records_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a batch is unpacked in a thread: those after it wait."""
    monkeypatch.setattr(tuning, "DECODED_AT_ONCE", 300)

    async def life(world: SimulatedWorld) -> None:
        await write(world, "orders", *[bytes(number % 3 * 200) for number in range(100)])
        async with consumer(world, "orders") as reader:
            await asyncio.sleep(2)
            found: list[int] = []

            async def one_by_one() -> None:
                while len(found) < 100:
                    found.append((await reader.getone()).offset)

            async def several() -> None:
                while len(found) < 100:
                    some = await reader.getmany(timeout_ms=1, max_records=3)
                    found.extend(each.offset for each in some.get(ZERO, ()))
                    await asyncio.sleep(0)

            tasks = [asyncio.create_task(each()) for each in (one_by_one, several, several)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert found == [*range(100)]
            assert await reader.position(ZERO) == 100

    live(life)


def test_a_cancelled_read_loses_nothing() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, "orders") as reader:
            found: list[int] = []

            async def read() -> None:
                while len(found) < 50:
                    try:
                        async with asyncio.timeout(0.003):
                            found.append(int((await reader.getone()).value))
                    except TimeoutError:
                        continue

            reading = asyncio.create_task(read())
            await fill(world, 50, 1)
            await reading
            assert found == [*range(50)]

    live(life)


def test_seeks_take_effect_within_a_batch() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, "orders") as reader:
            assert [(await reader.getone()).offset for _ in range(3)] == [0, 1, 2]
            reader.seek(ZERO, 1)
            assert await reader.position(ZERO) == 1
            assert [(await reader.getone()).offset for _ in range(2)] == [1, 2]
            reader.seek(ZERO, 7)
            assert values(await reader.getmany(timeout_ms=1_000)) == [7, 8, 9]
            assert await reader.getmany() == {}
            assert await reader.seek_to_beginning()
            assert (await reader.getone()).offset == 0
            assert await reader.seek_to_end(ZERO)
            assert await reader.position(ZERO) == 10
            await reader.commit({ZERO: OffsetAndMetadata(4, "four")})
            assert await reader.seek_to_committed() == {ZERO: 4}
            assert (await reader.getone()).offset == 4
            with pytest.raises(ValueError, match="positive integer"):
                reader.seek(ZERO, -1)
            with pytest.raises(TypeError, match="TopicPartition"):
                await reader.seek_to_end(1)
            with pytest.raises(theirs.IllegalStateError, match="is not assigned"):
                await reader.seek_to_committed(ONE)

    live(life)


def test_paused_partitions_give_nothing() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 2)
        async with consumer(world, "orders") as reader:
            await reader.getone(ZERO)  # a batch is open
            reader.pause(ZERO)
            assert reader.paused() == {ZERO}
            found = [await reader.getone() for _ in range(10)]
            assert {each.partition for each in found} == {1}
            waiting = asyncio.create_task(reader.getone())
            await asyncio.sleep(5)
            assert not waiting.done()
            reader.resume(ZERO)
            async with asyncio.timeout(10):
                assert (await waiting).offset == 1
            assert reader.paused() == set()

    live(life, 2)


def test_a_record_that_can_not_be_deserialized_comes_again() -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, "orders", b"1", b"2", b"{", b"4")
        async with consumer(world, "orders", value_deserializer=json.loads) as reader:
            await asyncio.sleep(2)
            [found] = (await reader.getmany(timeout_ms=1_000)).values()
            assert [each.value for each in found] == [1, 2]
            for _ in range(2):
                with pytest.raises(json.JSONDecodeError):
                    await reader.getone()
                with pytest.raises(json.JSONDecodeError):
                    await reader.getmany(timeout_ms=1_000)
            assert await reader.position(ZERO) == 2
            reader.seek(ZERO, 3)
            assert (await reader.getone()).value == 4

    live(life)


def test_the_ends_of_the_log_are_told() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, "orders", isolation_level="read_committed") as reader:
            await reader.getone()
            assert (reader.highwater(ZERO), reader.last_stable_offset(ZERO)) == (10, 10)
            first = reader.last_poll_timestamp(ZERO)
            assert first is not None
            await asyncio.sleep(5)
            assert (reader.last_poll_timestamp(ZERO) or 0) > first
            with pytest.raises(AssertionError):
                reader.highwater(ONE)

    live(life)


def test_offsets_and_topics_are_looked_up() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            for time in (1_000, 2_000):
                await producer.send("orders", b"v", timestamp_ms=time)
        async with consumer(world, request_timeout_ms=2_000) as reader:
            assert await reader.offsets_for_times({ZERO: 1_500}) == {
                ZERO: OffsetAndTimestamp(1, 2_000)
            }
            assert await reader.offsets_for_times({ZERO: 9_000}) == {ZERO: None}
            assert await reader.offsets_for_times({}) == {}
            assert await reader.beginning_offsets([ZERO]) == {ZERO: 0}
            assert await reader.end_offsets([ZERO]) == {ZERO: 2}
            with pytest.raises(ValueError, match="cannot be negative"):
                await reader.offsets_for_times({ZERO: -1})
            with pytest.raises(theirs.KafkaTimeoutError):
                await reader.end_offsets([TopicPartition("orders", 9)])
            assert await reader.topics() == {"orders"}
            assert reader.partitions_for_topic("orders") == {0}
            assert reader.partitions_for_topic("none") is None
            assert await reader.committed(ZERO) is None

    live(life)


# --- what is read ------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["g", None])
def test_partitions_are_assigned_by_hand(group: str | None) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 2)
        reader = consumer(world, group_id=group, auto_offset_reset="latest")
        reader.assign([ZERO, ONE])
        reader.pause(ONE)
        async with reader:
            reader.seek(ZERO, 3)  # before it is read
            assert reader.assignment() == {ZERO, ONE}
            assert reader.subscription() == {"orders"}
            assert [(await reader.getone()).offset for _ in range(2)] == [3, 4]
            assert await reader.getmany(ONE, timeout_ms=200) == {}
            reader.assign([ONE])
            reader.seek(ONE, 8)
            assert {reader.assignment() == {ONE}, (await reader.getone()).offset == 8} == {True}
            with pytest.raises(theirs.IllegalStateError, match="excludes subscribe"):
                reader.subscribe(["orders"])
            if group is None:
                for call in (reader.commit(), reader.committed(ONE), reader.seek_to_committed()):
                    with pytest.raises(theirs.IllegalOperation, match="Requires group_id"):
                        await call
                return
            reader.assign([ZERO])
            reader.seek(ZERO, 5)
            await reader.commit()
            assert await reader.committed(ZERO) == 5, "the position, though nothing was read"
            reader.assign([ONE])
            await reader.commit({ONE: (9, "by hand")})
            assert await reader.committed(ONE) == 9
        again = consumer(world, group_id=group, auto_offset_reset="latest")
        again.assign([ONE])
        async with again:
            assert (await again.getone()).offset == 9

    live(life, 2)


def test_positions_are_committed_without_a_membership() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        reader = consumer(world, auto_commit_interval_ms=1_000)
        reader.assign([ZERO])
        async with reader:
            await reader.getone()
            await asyncio.sleep(5)
            assert await reader.committed(ZERO) == 1
            await reader.getone()
        async with consumer(world, "orders") as member:
            assert await member.committed(ZERO) == 2
            stranger = consumer(world, enable_auto_commit=False)
            stranger.assign([ZERO])
            async with stranger:
                await stranger.getone()
                with pytest.raises(theirs.CommitFailedError) as caught:
                    await stranger.commit()
                assert isinstance(caught.value, ours.ProducerError)

    live(life)


def test_all_partitions_are_read_without_a_group() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 2)
        options = {"group_id": None, "metadata_max_age_ms": 1_000}
        async with consumer(world, "orders", **options) as reader:
            found = [await reader.getone() for _ in range(20)]
            assert sorted(int(each.value) for each in found) == [*range(20)]
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.add_partitions("orders", 3)
            await asyncio.sleep(10)
            assert len(reader.assignment()) == 3
            await write(world, "orders", b"new", partition=2)
            assert (await reader.getone()).value == b"new"

    live(life, 2)


def test_another_subscription_replaces_the_last_one() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 1)
        await write(world, "other", b"100", b"101")
        listener = Listener()
        async with consumer(world, "orders") as reader:
            await reader.getone()
            reader.subscribe(["other"], listener=listener)
            found = await reader.getone()
            assert (found.topic, found.value) == ("other", b"100")
            assert listener.calls == [("revoked", {ZERO}), ("assigned", {OTHER})]
            reader.unsubscribe()
            assert (reader.assignment(), reader.subscription()) == (set(), frozenset())
            waiting = asyncio.create_task(reader.getone())
            await asyncio.sleep(1)
            reader.subscribe(pattern="ord")
            async with asyncio.timeout(60):
                found = await waiting
            assert (found.topic, found.offset) == ("orders", 1)
            assert reader.subscription() == {"orders"}
            assert len(listener.calls) == 2

    live(life, 1, other=1)


def test_a_subscription_is_checked() -> None:
    reader = AIOKafkaConsumer(group_id="g")
    for arguments in (
        {"topics": ("a",), "pattern": "b"},
        {},
        {"topics": "orders"},
        {"topics": ["a"], "listener": object()},
    ):
        with pytest.raises(TypeError):
            reader.subscribe(**arguments)
    with pytest.raises(ValueError, match="valid pattern"):
        reader.subscribe(pattern="^(spome(")
    reader.subscribe(pattern="(?i)ORD")
    with pytest.raises(theirs.IllegalStateError, match="unsubscribe"):
        reader.subscribe(["orders"])
    reader._closed = True


# --- the group ---------------------------------------------------------------------------------


def test_listeners_are_told_of_each_rebalance() -> None:
    """aiokafka tells also of one before which, or after which, there are no partitions."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        listeners = Listener(), Listener()
        first, second = consumer(world), consumer(world)
        first.subscribe(["orders"], listener=listeners[0])
        second.subscribe(["orders"], listener=listeners[1])
        async with first:
            await first.getone()
            async with second:
                await asyncio.sleep(10)
                calls = [each.calls for each in listeners]
                assert calls[0][:2] == [("revoked", set()), ("assigned", {ZERO})]
                assert (calls[0][2], calls[1][0]) == (("revoked", {ZERO}), ("revoked", set()))
                assert {*map(str, [calls[0][3], calls[1][1]])} == {
                    str(("assigned", {ZERO})),
                    str(("assigned", set())),
                }
                count = len(calls[1])
            assert len(listeners[1].calls) == count, "stop() tells nothing"

    live(life)


def test_a_listener_may_ask_and_seek() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        reader = consumer(world, auto_offset_reset="latest")
        asked: list[Any] = []

        class Asking(Listener):
            async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
                for each in assigned:
                    asked.append(await reader.committed(each))
                    asked.append(await reader.position(each))
                    await reader.seek_to_beginning(each)
                    asked.append(await reader.position(each))

        reader.subscribe(["orders"], listener=Asking())
        async with reader:
            assert (await reader.getone()).offset == 0
            assert asked == [None, 10, 0]

    live(life)


def test_a_listener_that_fails_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        reader = consumer(world)

        class Failing(Listener):
            def on_partitions_assigned(self, assigned: Collection[Any]) -> None:  # type: ignore[override]
                raise ZeroDivisionError

        reader.subscribe(["orders"], listener=Failing())
        async with reader:
            assert (await reader.getone()).offset == 0

    live(life)
    assert "on_partitions_assigned() failed: ZeroDivisionError" in caplog.text


def test_a_rebalance_waits_for_no_returned_record() -> None:
    """The position counts, as with aiokafka: what was returned is committed, and goes."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 2)
        async with consumer(world, "orders") as first:
            found = [await first.getone() for _ in range(5)]
            async with asyncio.timeout(30), consumer(world, "orders") as second:
                assert len(first.assignment()) == len(second.assignment()) == 1
                await asyncio.sleep(5)
                for each in (first, second, first, second):
                    for records in (await each.getmany(timeout_ms=2_000)).values():
                        found += records
        assert sorted(int(each.value) for each in found) == [*range(20)]

    live(life, 2)


@pytest.mark.parametrize("way", ["one", "many"])
def test_an_idle_member_leaves_and_comes_back(way: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 1)
        async with consumer(world, "orders", max_poll_interval_ms=5_000) as idle:
            await idle.getone()
            async with consumer(world, "orders") as other:
                await asyncio.sleep(20)
                assert (idle.assignment(), other.assignment()) == (set(), {ZERO})
                await other.getone()
            async with asyncio.timeout(60):
                if way == "one":
                    await idle.getone()
                async for _ in every(0.5):
                    if await idle.getmany():
                        break

    live(life)


@pytest.mark.parametrize("options", [{}, {"rebalance_timeout_ms": 6_000}], ids=str)
def test_who_works_for_less_than_max_poll_interval_ms_stays(options: dict[str, int]) -> None:
    """``rebalance_timeout_ms``, by default the session's, bounds rebalances alone."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 1)
        async with consumer(world, "orders", **options) as busy:
            await busy.getone()
            async with consumer(world, "orders") as other:
                await asyncio.sleep(250)
                assert (busy.assignment(), other.assignment()) == ({ZERO}, set())
                await asyncio.sleep(100)
                assert (busy.assignment(), other.assignment()) == (set(), {ZERO})

    live(life)


def test_a_commit_of_a_former_member_fails() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        options = {"max_poll_interval_ms": 5_000, "enable_auto_commit": False}
        async with consumer(world, "orders", **options) as idle:
            record = await idle.getone()
            async with consumer(world, "orders") as other:
                await asyncio.sleep(20)
                assert other.assignment() == {ZERO}
                with pytest.raises(theirs.IllegalStateError, match="is not assigned"):
                    await idle.commit({ZERO: record.offset + 1})

    live(life)


def test_commits_are_checked() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, "orders") as reader:
            for wrong in ({}, "something", {ZERO: (1, "m", 100)}, {ZERO: "x"}):
                with pytest.raises(ValueError, match="offset"):
                    await reader.commit(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="Key should be TopicPartition instance"):
                await reader.commit({"orders": 1})
            with pytest.raises(TypeError, match="Metadata should be a string"):
                await reader.commit({ZERO: (1, b"x")})
            with pytest.raises(theirs.IllegalStateError, match="is not assigned"):
                await reader.commit({TopicPartition("orders", 7): 1})
            reader.unsubscribe()
            with pytest.raises(theirs.IllegalStateError, match="Not subscribed to any topics"):
                await reader.commit({ZERO: 1})
            reader.subscribe(["orders"])
            with pytest.raises(theirs.IllegalStateError, match="No partitions assigned"):
                await reader.commit({ZERO: 1})

    live(life)


# --- errors and the end ------------------------------------------------------------------------


def test_without_a_reset_the_application_decides() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world, "orders", auto_offset_reset="none") as reader:
            for read in (reader.getone, lambda: reader.getmany(timeout_ms=1_000)):
                for _ in range(2):
                    with pytest.raises(theirs.NoOffsetForPartitionError):
                        await read()
            reader.seek(ZERO, 19_999)
            for _ in range(2):
                with pytest.raises(theirs.OffsetOutOfRangeError) as caught:
                    await reader.getone()
            assert not isinstance(caught.value, theirs.NoOffsetForPartitionError)
            reader.seek(ZERO, 1)
            assert (await reader.getone()).offset == 1

    live(life)


def test_a_group_that_refuses_the_member_is_an_error_of_the_start() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.fail_next(Api.JOIN_GROUP, InvalidSessionTimeoutError)
        reader = consumer(world, "orders")
        with pytest.raises(theirs.InvalidSessionTimeoutError):
            await reader.start()
        await reader.start()  # it can be called again
        await reader.stop()

    live(life)


@pytest.mark.parametrize("request_kind", [Api.JOIN_GROUP, Api.HEARTBEAT, Api.OFFSET_FETCH])
def test_an_error_of_the_coordinator_is_raised_by_each_read(request_kind: Api) -> None:
    """A new subscription is a new attempt."""

    async def life(world: SimulatedWorld) -> None:
        async with consumer(world) as reader:
            if request_kind is Api.HEARTBEAT:
                reader.subscribe(["orders"])
                await asyncio.sleep(5)
            world.cluster.fail_next(request_kind, ours.GroupAuthorizationFailedError)
            if request_kind is not Api.HEARTBEAT:
                reader.subscribe(["orders"])
            async with asyncio.timeout(60):
                for _ in range(2):
                    with pytest.raises(theirs.GroupAuthorizationFailedError):
                        await reader.getone()
                    with pytest.raises(theirs.KafkaError):
                        await reader.getmany(timeout_ms=10_000)
                await fill(world, 1, 1)
                reader.subscribe(["orders"])
                assert (await reader.getone()).offset == 0

    live(life)


def test_a_position_is_asked_for_in_a_rebalance() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world, "orders") as reader:
            await reader.getone()
            reader.subscribe(["orders", "other"])
            with pytest.raises(theirs.IllegalStateError, match="is not assigned"):
                await reader.position(ZERO)
            async with asyncio.timeout(60):
                assert (await reader.getone()).offset == 1
            reader.unsubscribe()
            reader.assign([ZERO])
            waiting = asyncio.create_task(reader.position(ZERO))
            await asyncio.sleep(0)
            reader.assign([ZERO])  # another one is to be found
            assert await waiting == 2
            waiting = asyncio.create_task(reader.position(ZERO))
            reader.assign([OTHER])
            with pytest.raises(theirs.IllegalStateError, match="is not assigned"):
                await waiting

    live(life, other=1)


def test_a_stopped_consumer_gives_nothing() -> None:
    async def life(world: SimulatedWorld) -> None:
        reader = consumer(world, "orders")
        await reader.start()
        with pytest.raises(AssertionError, match="twice"):
            await reader.start()

        async def read() -> list[Any]:
            return [record async for record in reader]

        one, many = (
            asyncio.create_task(call)
            for call in (reader.getone(), reader.getmany(timeout_ms=100_000))
        )
        loop = asyncio.create_task(read())
        await asyncio.sleep(1)
        await reader.stop()
        await reader.stop()
        with pytest.raises(theirs.ConsumerStoppedError) as caught:
            await one
        assert not isinstance(caught.value, theirs.KafkaError)
        assert await many == {}
        assert await loop == []
        for call in (reader.getone(), reader.getmany(), read()):
            with pytest.raises(theirs.ConsumerStoppedError):
                await call

    live(life)


def test_a_consumer_that_was_never_started_can_be_stopped() -> None:
    async def life(world: SimulatedWorld) -> None:
        reader = consumer(world, "orders")
        with pytest.raises(theirs.IllegalStateError, match="was not started"):
            await reader.getone()
        await reader.stop()
        reader = consumer(world)
        await reader.start()
        reader.subscribe(["orders"])
        reader.unsubscribe()
        reader.subscribe(["orders"])
        await reader.stop()

    live(life)


def test_a_missing_topic_ends_the_start() -> None:
    async def life(world: SimulatedWorld) -> None:
        reader = consumer(world, "none", group_id=None, request_timeout_ms=3_000)
        with pytest.raises(theirs.UnknownTopicOrPartitionError):
            await reader.start()
        await reader.stop()

    live(life)


async def test_an_unclosed_consumer_is_named() -> None:
    reader = AIOKafkaConsumer("orders", group_id="g")
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    held = [reader]
    del reader
    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaConsumer"):
        held.clear()
    assert told[0]["message"] == "Unclosed AIOKafkaConsumer"


def test_whoever_only_writes_imports_no_consumer() -> None:
    code = (
        "import sys; from aioproducer.compat.aiokafka import AIOKafkaProducer; "
        "print('aioproducer.consumer' in sys.modules); "
        "from aioproducer.compat.aiokafka import AIOKafkaConsumer; "
        "print('aioproducer.consumer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
