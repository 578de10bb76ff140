"""What a Consumer offers beside its loop, on a real Kafka."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.errors import ConfigError, IllegalStateError, KafkaError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader import Reader
from tests.support.group_topic import PARTITIONS, Topic, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def take(consumer: Consumer, records: int) -> list[ConsumerRecord]:
    loop = aiter(consumer)
    return [await asyncio.wait_for(anext(loop), 20) for _ in range(records)]


def numbers(records: Collection[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"") for record in records]


# --- batches and lists -------------------------------------------------------------------------


async def test_batches_and_lists_are_acknowledged_when_more_is_asked_for(topic: Topic) -> None:
    await topic.send(600)
    seen: list[int] = []
    async with topic.consumer() as consumer:
        async for batch in consumer.batches():
            seen += numbers(batch)
            if len(seen) >= 100:
                break
        again = numbers(batch)
        async for records in consumer.lists(max_records=70):
            assert len(records) <= 70
            seen += numbers(records)
            if len(seen) >= 600 + len(again):
                break
        assert sorted(seen) == sorted([*range(600), *again]), "the last batch came again"
        await consumer.commit()
    assert [row[5] for row in await topic.described()] == ["0"] * PARTITIONS, "no lag"


async def test_cancelled_reads_lose_nothing(topic: Topic) -> None:
    seen: list[int] = []
    async with topic.consumer() as consumer:
        loop = aiter(consumer)
        sending = asyncio.create_task(send_slowly(topic, 60))
        while len(seen) < 60:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.005):
                    seen += numbers([await anext(loop)])
        await sending
    assert sorted(seen) == list(range(60))


async def send_slowly(topic: Topic, records: int) -> None:
    for _ in range(records):
        await topic.send(1)
        await asyncio.sleep(0.01)


async def test_what_is_acknowledged_is_committed_while_the_loop_waits(topic: Topic) -> None:
    await topic.send(PARTITIONS)
    async with topic.consumer(auto_commit_interval_ms=100) as consumer:

        async def are_committed() -> bool:
            found = await consumer.committed()
            return sum(each.offset for each in found.values() if each) == PARTITIONS

        async with running(take(consumer, PARTITIONS + 1)):
            await until(are_committed)
            await topic.send(1)


# --- handlers side by side ---------------------------------------------------------------------


@pytest.mark.parametrize("order", ["partition", "key", "none"])
async def test_handlers_work_side_by_side_and_keep_the_order_that_is_asked_for(
    topic: Topic, order: Any
) -> None:
    for number in range(400):
        key = b"%d" % (number % 40)
        topic.producer.send(topic.name, b"%d" % number, key=key, partition=number % PARTITIONS)
    await topic.producer.flush()
    handled: dict[Any, list[int]] = defaultdict(list)
    busy = most = 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001 * (record.offset % 7))
        busy -= 1
        lane = record.partition if order == "partition" else (record.partition, record.key)
        handled[lane].append(int(record.value or b""))

    async with topic.consumer() as consumer:
        async with running(consumer.run(handle, concurrency=16, order=order)):
            await until(lambda: sum(map(len, handled.values())) == 400)
        if order != "none":
            assert all(numbers == sorted(numbers) for numbers in handled.values())
        assert sorted(chain(*handled.values())) == list(range(400))
        assert most == (PARTITIONS if order == "partition" else 16)
    assert [row[5] for row in await topic.described()] == ["0"] * PARTITIONS, "no lag"


async def test_a_handler_that_fails_ends_run_and_no_commit_passes_its_record(topic: Topic) -> None:
    await topic.send(120)
    failing = 61  # the eleventh record of partition 1
    done: list[int] = []

    async def handle(record: ConsumerRecord) -> None:
        if int(record.value or b"") == failing:
            await asyncio.sleep(0.5)
            raise ZeroDivisionError
        done.append(int(record.value or b""))

    async with topic.consumer() as consumer:
        with pytest.raises(ZeroDivisionError):
            await consumer.run(handle, order="none")
        assert len(done) == 119, "the others went on meanwhile"
        assert consumer.positions[TopicPartition(topic.name, 1)] == 20
    rows = await topic.described()
    assert [row[3] for row in rows] == ["20", "10", "20", "20", "20", "20"]
    async with topic.consumer() as other:
        again = await take(other, 1)
    assert numbers(again) == [failing]


async def test_a_slow_partition_holds_up_no_other(topic: Topic) -> None:
    await topic.send(6)
    stuck = asyncio.Event()
    done: list[int] = []

    async def handle(record: ConsumerRecord) -> None:
        if record.partition == 0:
            await stuck.wait()
        done.append(int(record.value or b""))

    async with topic.consumer() as consumer, running(consumer.run(handle, concurrency=4)):
        for _ in range(10):
            await topic.send(600)
        await until(lambda: len(done) >= 1001 * 5)
        assert {number % PARTITIONS for number in done} == {1, 2, 3, 4, 5}
        stuck.set()
        await until(lambda: len(done) == topic.sent)


async def test_run_refuses_what_it_can_not_do(topic: Topic) -> None:
    async def handle(record: ConsumerRecord) -> None: ...

    async with topic.consumer() as consumer:
        with pytest.raises(ConfigError, match="concurrency is an int, at least 1, not 0"):
            await consumer.run(handle, concurrency=0)
        with pytest.raises(ConfigError, match="order is 'partition', 'key', 'none', not 'topic'"):
            await consumer.run(handle, order="topic")  # type: ignore[arg-type]
        async with running(consumer.run(handle)):
            await asyncio.sleep(0)
            with pytest.raises(IllegalStateError, match=r"run\(\) reads from this Consumer"):
                aiter(consumer)


async def test_handlers_of_revoked_partitions_finish_and_those_of_lost_ones_are_cancelled(
    topic: Topic,
) -> None:
    await topic.send(PARTITIONS)
    events: list[Any] = []
    go = asyncio.Event()
    begun = 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal begun
        begun += 1
        try:
            await go.wait()
            events.append(int(record.value or b""))
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async with topic.consumer() as consumer, running(consumer.run(handle)):
        await until(lambda: begun == PARTITIONS)
        async with running(topic.consume("b")):
            await asyncio.sleep(1.5)
            assert topic.readers == {}, "the revocation waits for the handlers"
            go.set()
            await until(lambda: len(events) == PARTITIONS)
            await until(lambda: len(consumer.assignment) == PARTITIONS // 2)
        assert not topic.read, "the records were done, and are not read again"
        go.clear()
        events.clear()
        await until(lambda: len(consumer.assignment) == PARTITIONS)
        await topic.send(PARTITIONS)
        await until(lambda: begun == 2 * PARTITIONS)
        consumer._refused(25)  # UNKNOWN_MEMBER_ID
        await until(lambda: events == ["cancelled"] * PARTITIONS)
        go.set()
        await until(lambda: len(events) == 2 * PARTITIONS, "they come again")


# --- how it does -------------------------------------------------------------------------------


async def test_health_and_metrics_tell_what_a_member_does(topic: Topic) -> None:
    await topic.send(60)
    consumer = topic.consumer(auto_commit=False, max_poll_interval_ms=4_000)
    assert consumer.health().state == "not started"
    async with consumer:
        assert not consumer.health().is_ready
        await take(consumer, 60)
        await consumer.commit()
        health = consumer.health()
        assert (health.state, health.is_ready, health.is_live) == ("joined", True, True)
        assert (health.partitions, health.partitions_without_position, health.lag) == (6, 0, 0)
        await topic.send(1)
        [record] = await take(consumer, 1)
        await until(lambda: consumer.health().is_degraded, "the record is in work for too long")
        health = consumer.health()
        assert health.oldest_record == (record.topic_partition, record.offset)
        assert "at offset 10 has been in processing" in health.reason
        metrics = consumer.metrics()
        counted = metrics["consumer-coordinator-metrics"]
        assert counted["assigned-partitions"] == PARTITIONS
        assert counted["commit-total"] == 1
        assert counted["rebalance-total"] == 1
        assert counted["last-heartbeat-seconds-ago"] < 4
        assert metrics["consumer-fetch-manager-metrics"]["records-consumed-total"] == 61
        assert metrics["consumer-fetch-manager-metrics"]["records-lag-max"] == 0
    assert (consumer.health().state, consumer.health().is_live) == ("closed", False)


# --- partitions --------------------------------------------------------------------------------


async def test_callbacks_are_told_and_may_seek_and_commit(topic: Topic) -> None:
    await topic.send(60)
    told: list[tuple[str, int]] = []

    async def assigned(partitions: Collection[TopicPartition]) -> None:
        told.append(("assigned", len(partitions)))
        for where in partitions if len(told) == 1 else ():
            await consumer.seek(where, 5)

    async def revoked(partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0.5)  # heartbeats go on
        told.append(("revoked", len(partitions)))
        await consumer.commit()

    def lost(partitions: Collection[TopicPartition]) -> None:
        told.append(("lost", len(partitions)))

    consumer = topic.consumer(
        auto_commit=False, on_assigned=assigned, on_revoked=revoked, on_lost=lost
    )
    async with consumer:
        records = await take(consumer, 30)
        assert {record.offset for record in records} == {5, 6, 7, 8, 9}
        await consumer.commit()
        async with running(topic.consume("b")):
            await until(lambda: told[1:3] == [("revoked", 6), ("assigned", 3)])
            await topic.send(6)
            await until(lambda: len(topic.read) == 3, "b goes on where the callback has committed")
        await until(lambda: told[3:5] == [("revoked", 3), ("assigned", 6)])
        consumer._refused(25)  # UNKNOWN_MEMBER_ID
        await until(lambda: told[5:] == [("lost", 6), ("assigned", 6)])


async def test_an_error_of_a_callback_is_raised_by_the_next_read(topic: Topic) -> None:
    async def assigned(partitions: Collection[TopicPartition]) -> None:
        raise ZeroDivisionError

    async with topic.consumer(on_assigned=assigned) as consumer:
        with pytest.raises(Exception, match="died of ZeroDivisionError"):
            await take(consumer, 1)


async def test_pauses_positions_offsets_and_lag(topic: Topic) -> None:
    await topic.send(60)
    zero = TopicPartition(topic.name, 0)
    async with topic.consumer() as consumer:
        await take(consumer, 1)
        consumer.pause(zero)
        assert consumer.paused == {zero}
        others = numbers(await take(consumer, 50))
        assert {number % PARTITIONS for number in others} == {1, 2, 3, 4, 5}
        await consumer.commit()
        at = consumer.positions
        assert {
            where: each and each.offset for where, each in (await consumer.committed()).items()
        } == at
        assert await consumer.lag() == {where: 10 - offset for where, offset in at.items()}
        consumer.resume(zero)
        rest = numbers(await take(consumer, 60 - sum(at.values())))
        assert {number % PARTITIONS for number in rest} == {0}
        await consumer.seek(zero, -2)
        assert numbers(await take(consumer, 2)) == [48, 54]
        await consumer.commit({zero: 3})
        assert (await consumer.committed(zero))[zero] == (3, "", None)
        with pytest.raises(ConfigError, match="nowhere-0 is not assigned"):
            consumer.pause(TopicPartition("nowhere", 0))


@pytest.mark.parametrize(
    "way",
    [
        {"group_protocol": "consumer"},
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
    ],
    ids=lambda way: next(iter(way.values())),
)
async def test_another_subscription_takes_effect_beside_another_member(
    topic: Topic, way: dict[str, Any]
) -> None:
    other = f"{topic.name}-other"
    await topic.kafka.create_topic(other, 2)
    await topic.send(60)
    revoked: set[TopicPartition] = set()
    consumer = topic.consumer(on_revoked=revoked.update, auto_commit_interval_ms=60_000, **way)
    async with consumer, topic.consumer(topic.name, other, **way) as second:
        found: list[ConsumerRecord] = []

        async def read() -> None:
            async for record in consumer:
                found.append(record)

        async with running(read()):
            await until(lambda: {each.topic for each in second.assignment} >= {other})
            await until(lambda: len(consumer.assignment) + len(second.assignment) == 8)
            await until(lambda: set(consumer.positions.values()) == {10})
            mine = consumer.positions
            consumer.subscribe(other)
            await until(lambda: {each.topic for each in consumer.assignment} == {other})
            await until(lambda: len(consumer.assignment) + len(second.assignment) == 8)
            assert revoked >= mine.keys()
            committed = await second.committed(*mine)
            assert all(each and each.offset == 10 for each in committed.values())
            for where in consumer.assignment:
                topic.producer.send(other, b"1", partition=where.partition)
            await until(lambda: found[-1].topic == other)
            consumer.subscribe(topic.name, other)
            await until(lambda: {each.topic for each in consumer.assignment} >= {topic.name})
            await until(lambda: len(consumer.assignment) + len(second.assignment) == 8)


async def test_a_group_changes_its_strategy_by_rolling_restarts(topic: Topic) -> None:
    await topic.send(60)
    new = "cooperative-sticky"
    steps: list[Any] = ["range", ["range", new], new]
    async with running() as tasks:
        for step in steps:
            for number, name in enumerate("ab"):
                if len(tasks) > number:
                    tasks[number].cancel()
                    await asyncio.wait([tasks[number]])
                member = topic.consume(name, partition_assignment_strategy=step)
                tasks[number : number + 1] = [asyncio.ensure_future(member)]
                await topic.send(PARTITIONS)
                await until(lambda: topic.complete, "the members go on", 60)
        async with topic.admin() as admin:

            async def has_changed() -> bool:
                group = (await admin.describe_groups(topic.group))[topic.group]
                return group.assignor == new and len(group.members) == 2

            await until(has_changed)


async def test_a_seek_to_the_committed_offset(topic: Topic) -> None:
    await topic.send(60)
    zero = TopicPartition(topic.name, 0)
    async with topic.consumer(auto_commit=False) as consumer:
        loop = aiter(consumer)
        for _ in range(60):
            await anext(loop)
        await consumer.seek(zero, "committed")
        assert numbers([await anext(loop), await anext(loop)]) == [0, 6], "where it began"
        await consumer.commit({zero: 7})
        await consumer.seek(zero, "committed")
        assert numbers([await anext(loop) for _ in range(3)]) == [42, 48, 54]


async def test_a_pattern_and_partitions_that_appear_later(topic: Topic) -> None:
    consumer = topic.consumer(re.compile(f"{topic.name}(-more)?"), metadata_max_age_ms=500)
    async with consumer:
        await until(lambda: len(consumer.assignment) == PARTITIONS)
        await topic.kafka.create_topic(f"{topic.name}-more", 2)
        await until(lambda: len(consumer.assignment) == PARTITIONS + 2)
        await topic.kafka.create_topic(f"{topic.name}-none-of-it", 2)
        async with topic.admin() as admin:
            await admin.add_partitions(f"{topic.name}-more", 5)
        await until(lambda: len(consumer.assignment) == PARTITIONS + 5)
        await topic.producer.send(f"{topic.name}-more", b"0", partition=4)
        [record] = await take(consumer, 1)
        assert record.partition == 4


async def test_internal_topics_match_no_pattern(topic: Topic) -> None:
    await topic.send(1)
    async with topic.consumer(re.compile(f"__consumer_offsets|{topic.name}")) as consumer:
        await take(consumer, 1)
        assert {where.topic for where in consumer.assignment} == {topic.name}


async def test_the_leader_divides_topics_that_only_others_want(topic: Topic) -> None:
    other = f"{topic.name}-other"
    await topic.kafka.create_topic(other, 2)
    async with topic.consumer() as leader:
        await until(lambda: len(leader.assignment) == PARTITIONS)
        async with topic.consumer(topic.name, other) as member:
            await until(lambda: len(leader.assignment) == PARTITIONS // 2)
            await until(lambda: len(member.assignment) == PARTITIONS // 2 + 2)
            assert {where.topic for where in leader.assignment} == {topic.name}


async def test_a_group_without_offsets_may_begin_at_a_time(topic: Topic) -> None:
    for age, number in ((7_200_000, 0), (1_800_000, 1)):
        await topic.producer.send(
            topic.name, b"%d" % number, partition=0, timestamp_ms=time.time_ns() // 10**6 - age
        )
    async with topic.consumer(auto_offset_reset="by_duration:PT1H") as consumer:
        assert numbers(await take(consumer, 1)) == [1]


# --- what goes wrong ---------------------------------------------------------------------------


async def test_a_member_that_is_stuck_leaves_and_says_so(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    await topic.send(PARTITIONS)
    async with topic.consumer(max_poll_interval_ms=1_500) as stuck:
        records = aiter(stuck)
        record = await anext(records)
        await asyncio.sleep(1.3)
        assert f"{record.topic_partition} at offset 0 has been in processing for 1 s" in caplog.text
        async with running(topic.consume("b")):
            await until(lambda: topic.complete, "another member reads them all")
            with pytest.raises(KafkaError, match="to another member before its records were"):
                await stuck.commit()
            again = asyncio.ensure_future(anext(records))
            await until(lambda: len(stuck.assignment) == PARTITIONS // 2, "it has joined again")
            again.cancel()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_records_of_new_partitions_are_not_skipped(topic: Topic, protocol: str) -> None:
    """They are written before the member knows the partition, and before it knows the topic."""
    later = f"{topic.name}-later"
    await topic.send(PARTITIONS)
    found: list[tuple[str, int, int]] = []

    async def read(consumer: Consumer) -> None:
        async for record in consumer:
            found.append((record.topic, record.partition, record.offset))

    options = {"auto_offset_reset": "latest", "group_protocol": protocol}
    async with (
        topic.admin() as admin,
        topic.consumer(
            re.compile(f"{topic.name}(-later)?"), metadata_max_age_ms=3_000, **options
        ) as consumer,
        running(read(consumer)),
    ):
        await until(lambda: len(consumer.positions) == PARTITIONS, "it knows where to begin")
        await admin.add_partitions(topic.name, PARTITIONS + 1)
        await topic.kafka.create_topic(later, 1)
        async with Producer(bootstrap_servers=topic.kafka.bootstrap_servers) as producer:
            for name, partition in ((topic.name, PARTITIONS), (later, 0)):
                for _ in range(100):
                    producer.send(name, b"1", partition=partition)
        assert not found, "it has not noticed them"
        await until(lambda: len(found) >= 200, "every record is read", 30)
    assert sorted(found) == sorted(
        (name, partition, offset)
        for name, partition in ((topic.name, PARTITIONS), (later, 0))
        for offset in range(100)
    )


async def test_a_deleted_topic_fails_no_other_commit(topic: Topic) -> None:
    other = f"{topic.name}-other"
    await topic.kafka.create_topic(other, 1)
    await topic.send(PARTITIONS)
    await topic.producer.send(other, b"0")
    consumer = topic.consumer(topic.name, other, auto_commit=False)
    async with consumer:
        await take(consumer, PARTITIONS + 1)
        async with topic.admin() as admin:
            await admin.delete_topics(other)
            await until(lambda: is_gone(admin, other))
        with pytest.raises(KafkaError, match=f"{other}-0 .*UNKNOWN_TOPIC_ID"):
            await consumer.commit()
    assert [row[3] for row in await topic.described()] == ["1"] * PARTITIONS


async def test_offsets_of_a_deleted_topic_are_not_committed_to_its_successor(topic: Topic) -> None:
    name = f"{topic.name}-again"
    await topic.kafka.create_topic(name, 1)
    for number in range(3):
        await topic.producer.send(name, b"%d" % number)
    consumer = topic.consumer(name, auto_commit=False)
    async with consumer, topic.admin() as admin:
        await take(consumer, 3)
        consumer.pause(TopicPartition(name, 0))  # no fetch tells it
        await admin.delete_topics(name)
        await until(lambda: is_gone(admin, name))
        await topic.kafka.create_topic(name, 1)
        with suppress(KafkaError):  # unless something else has told it meanwhile
            await consumer.commit()
        found = (await admin.group_offsets(topic.group)).get(TopicPartition(name, 0))
        assert found is None or found.offset == 0
        await until(lambda: consumer.positions.get(TopicPartition(name, 0)) == 0, "it is anew")


async def is_gone(admin: Admin, topic: str) -> bool:
    return topic not in await admin.list_topics()


async def test_health_and_metrics_say_what_a_consumer_does(topic: Topic) -> None:
    consumer = topic.consumer()
    assert consumer.health().state == "not started"
    await topic.send(60)
    async with consumer:
        assert consumer.health().state == "joining"
        assert consumer.health().reason.startswith("the member is not in group")
        await take(consumer, 50)
        await until(lambda: consumer.health().lag is not None)  # each partition was fetched
        health = consumer.health()
        assert (health.state, health.is_ready, health.problems) == ("joined", True, ())
        assert (health.partitions, health.lag, health.rebalances) == (6, 10, 1)
        assert health.oldest_record is not None
        assert health.oldest_record_age is not None
        assert json.loads(json.dumps(health.as_dict()))["member_id"] == health.member_id
        await consumer.commit()
        metrics = consumer.metrics()
        coordinator = metrics["consumer-coordinator-metrics"]
        assert coordinator["assigned-partitions"] == 6
        assert coordinator["commit-total"] >= 1
        assert coordinator["rebalance-total"] == 1
        fetched = metrics["consumer-fetch-manager-metrics"]
        assert fetched["records-consumed-total"] == 50
        assert fetched["bytes-consumed-total"] > 0
        lags = metrics["consumer-fetch-manager-partition-metrics"].values()
        assert sum(each["records-lag"] for each in lags) == 10
    assert not consumer.health().is_live


# --- exactly once ------------------------------------------------------------------------------


async def read_committed(topic: Topic, name: str) -> list[int]:
    async with Reader(
        name,
        bootstrap_servers=topic.kafka.bootstrap_servers,
        end="end",
        isolation_level="read_committed",
    ) as reader:
        return sorted([int(record.value or b"") async for record in reader])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_records_and_their_results_are_committed_together(
    topic: Topic, protocol: str
) -> None:
    results = f"{topic.name}-results"
    await topic.kafka.create_topic(results, 3)
    await topic.send(600)

    async def work(name: str, fails: bool = False) -> None:
        async with (
            Producer(
                bootstrap_servers=topic.kafka.bootstrap_servers,
                transactional_id=f"{topic.name}-{name}",
            ) as producer,
            topic.consumer(isolation_level="read_committed", group_protocol=protocol) as consumer,
        ):
            works = 0
            async for work in consumer.transactions(producer, max_records=50):
                async with work:
                    for record in work:
                        producer.send(results, record.value)
                    works += 1
                    if fails and works == 3:
                        raise ZeroDivisionError

    async def until_results(count: int) -> None:
        async def are_there() -> bool:
            return len(await read_committed(topic, results)) >= count

        await until(are_there)

    with pytest.raises(ZeroDivisionError):
        await work("a", fails=True)
    assert len(await read_committed(topic, results)) <= 100
    async with running(work("a"), work("b")):
        await topic.send(600)
        await until_results(1200)
        async with running(work("c")):  # a rebalance under way
            await topic.send(600)
            await asyncio.sleep(1)
        await topic.send(600)
        await until_results(2400)
    assert await read_committed(topic, results) == list(range(2400))
    assert [row[5] for row in await topic.described()] == ["0"] * PARTITIONS, "no lag"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", ["loop", "transactions"])
async def test_a_lag_reaches_zero_behind_markers_and_aborted_records(
    topic: Topic, protocol: str, way: str
) -> None:
    servers = topic.kafka.bootstrap_servers

    async def write(commits: bool, partitions: int) -> None:
        await writer.begin_transaction()
        for partition in range(partitions):
            writer.send(topic.name, b"1", partition=partition)
        await writer.flush()
        await (writer.commit_transaction() if commits else writer.abort_transaction())

    async def read(consumer: Consumer, producer: Producer) -> None:
        if way == "transactions":
            async for work in consumer.transactions(producer):
                async with work:
                    pass
        async for _ in consumer:
            await consumer.commit()

    async def has_no_lag(end: int) -> bool:
        lags = await admin.group_lag(topic.group)
        return [(each.committed, each.end) for each in lags.values()] == [(end, end)] * PARTITIONS

    options = {"isolation_level": "read_committed", "group_protocol": protocol}
    async with (
        topic.admin() as admin,
        Producer(bootstrap_servers=servers, transactional_id=f"{topic.name}-w") as writer,
        Producer(bootstrap_servers=servers, transactional_id=f"{topic.name}-r") as producer,
        topic.consumer(auto_commit=False, **options) as consumer,
    ):
        await write(False, PARTITIONS)
        await write(True, PARTITIONS)
        async with running(read(consumer, producer)):
            await until(lambda: has_no_lag(4))
            if way == "transactions":  # nothing of this is ever handed out
                await write(False, PARTITIONS)
                await until(lambda: has_no_lag(6))


async def test_an_aborted_work_comes_again_in_the_next_loop(topic: Topic) -> None:
    await topic.send(1)
    async with (
        Producer(
            bootstrap_servers=topic.kafka.bootstrap_servers, transactional_id=topic.name
        ) as producer,
        topic.consumer() as consumer,
    ):
        seen: list[list[int]] = []

        async def fail() -> None:
            async for work in consumer.transactions(producer, max_records=1):
                async with work:
                    seen.append(numbers(work.records))
                    raise ZeroDivisionError

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await fail()
        assert seen == [[0], [0]]
        works = aiter(consumer.transactions(producer, max_records=1))
        await anext(works)
        with pytest.raises(IllegalStateError, match="was not entered"):
            await anext(works)
