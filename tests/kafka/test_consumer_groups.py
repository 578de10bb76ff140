"""Members of groups on a real Kafka: alone, with other clients' members, behind a proxy."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from aioproducer import Producer
from aioproducer.admin import Admin, GroupMember
from aioproducer.consumer import Consumer
from aioproducer.errors import (
    ClientClosedError,
    GroupIdNotFoundError,
    IllegalStateError,
    KafkaError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.group_topic import PARTITIONS, Topic, running
from tests.support.read_back import read_topic
from tests.support.real_proxies import Microsocks, RealProxy, Squid
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.kafka


STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
NEW = "KIP-848"
"""No strategy of members: the coordinator divides the partitions."""


def by(strategy: str) -> dict[str, Any]:
    if strategy == NEW:
        return {"group_protocol": "consumer"}
    return {"partition_assignment_strategy": strategy}


each_protocol = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.mark.parametrize("strategy", [*STRATEGIES, NEW])
async def test_members_share_the_partitions_and_go_on_where_another_one_left(
    topic: Topic, strategy: str
) -> None:
    options = by(strategy)
    await topic.send(300)
    async with running(topic.consume("a", **options)):
        await until(lambda: topic.complete, "one member reads everything")
        async with running(topic.consume("b", **options)):
            await topic.send(60)
            await until(lambda: topic.complete, "both read on")
            for _ in range(20):
                await topic.send(60)
                await until(lambda: topic.complete, "both read on")
                if len(topic.readers.get("b", ())) >= PARTITIONS // 2:
                    break
                await asyncio.sleep(0.3)
            assert len(topic.readers["b"]) == PARTITIONS // 2
            rows = await topic.described()
            assert len({row[6] for row in rows}) == 2, "two members"
        await topic.send(60)
        await until(lambda: topic.complete, "the first one has all partitions again")
    assert all(times == 1 for times in topic.read.values()), "nothing came twice"
    async with running(topic.consume("c", **options)):
        await topic.send(6)
        await until(lambda: topic.complete, "a later member goes on at the committed offsets")
    assert all(times == 1 for times in topic.read.values())
    assert [row[5] for row in await topic.described()] == ["0"] * PARTITIONS, "no lag"


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky", NEW])
async def test_librdkafkas_members_are_in_the_same_group(
    topic: Topic, strategy: str, ours_first: bool
) -> None:
    """Whoever comes first leads the group and divides its partitions."""

    def theirs(stop: asyncio.Event) -> None:
        member = ConfluentConsumer(
            {
                "bootstrap.servers": topic.kafka.bootstrap_servers,
                "group.id": topic.group,
                "auto.offset.reset": "earliest",
                **(
                    {"group.protocol": "consumer"}
                    if strategy == NEW
                    else {
                        "partition.assignment.strategy": strategy,
                        "heartbeat.interval.ms": 300,
                        "session.timeout.ms": 6_000,
                    }
                ),
            }
        )
        member.subscribe([topic.name])
        try:
            while not stop.is_set():
                message = member.poll(0.1)
                if message is not None and message.error() is None:
                    topic.took("theirs", message.value() or b"", message.partition() or 0)
        finally:
            member.close()

    await topic.send(60)
    stop = asyncio.Event()
    ours = topic.consume("ours", **by(strategy))
    members = [ours, asyncio.to_thread(theirs, stop)]
    order = members if ours_first else members[::-1]
    async with running(order[0]) as tasks:
        await until(lambda: topic.complete, "the first member reads everything")
        tasks.append(asyncio.ensure_future(order[1]))
        try:
            for _ in range(60):
                await topic.send(60)
                await until(lambda: topic.complete, "both read on")
                if len(topic.readers) == 2 and min(map(len, topic.readers.values())) >= 3:
                    break
                await asyncio.sleep(0.3)
            second = topic.readers["theirs" if ours_first else "ours"]
            assert len(second) == PARTITIONS // 2
        finally:
            stop.set()
            await asyncio.wait(tasks[-1:] if ours_first else tasks[:1])
        await topic.send(60)
        if ours_first:
            await until(lambda: topic.complete, "ours has all partitions again")


@pytest.mark.parametrize("ours_first", [True, False])
@each_protocol
async def test_javas_members_are_in_the_same_group(
    topic: Topic, protocol: str, ours_first: bool
) -> None:
    """Java's member ends when it has got nothing for some seconds."""

    async def theirs() -> list[int]:
        tool = await topic.kafka.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", topic.kafka.bootstrap_servers, "--topic", topic.name),
            *("--group", topic.group, "--timeout-ms", "6000"),
            *("--command-property", f"group.protocol={protocol}"),
            *("--command-property", "auto.offset.reset=earliest"),
        )
        return sorted(map(int, tool.stdout.split()))

    async def described() -> Sequence[GroupMember]:
        with suppress(GroupIdNotFoundError):
            return (await admin.describe_groups(topic.group))[topic.group].members
        return ()

    async def members_are(count: int) -> bool:
        return len(await described()) == count

    async def is_balanced() -> bool:
        return [len(each.partitions or ()) for each in await described()] == [3, 3]

    async with topic.admin() as admin:
        java = asyncio.ensure_future(theirs())
        if not ours_first:
            await until(lambda: members_are(1), "Java's member has joined")
        async with running(topic.consume("ours", group_protocol=protocol)):
            if ours_first:
                await until(lambda: members_are(1), "one of them has joined")
            await until(lambda: members_are(2), "both have joined")
            await until(is_balanced, "each has three partitions")
            await topic.send(60)
            await until(lambda: len(topic.read) == 30, "ours has read its part")
            found = await java
            assert sorted([*found, *topic.read]) == list(range(60))
            await topic.send(60)
            await until(lambda: len(topic.read) == 90, "ours has all partitions")


@pytest.mark.parametrize("order", [("classic", "consumer"), ("consumer", "classic")])
async def test_a_group_changes_its_protocol_while_it_reads(
    topic: Topic, order: tuple[str, str]
) -> None:
    """Online migration (KIP-848): members of both protocols are in one group for a while."""
    await topic.send(60)
    old, new = order
    async with topic.consumer(group_protocol=new) as second:
        # Kafka 4.3 fails to convert a classic group before its first assignment.
        await until(lambda: len(second.assignment) == PARTITIONS, "the first member has joined")
        async with running(topic.consume("old", group_protocol=old)):
            await until(lambda: "old" in topic.readers or len(second.assignment) < PARTITIONS)
            async with running(second.run(lambda record: topic.handle("new", record))):
                await until(lambda: topic.complete)
                for _ in range(40):
                    await topic.send(60)
                    await until(lambda: topic.complete, "both read on")
                    if len(second.assignment) == PARTITIONS // 2:
                        break
                    await asyncio.sleep(0.2)
                assert len(second.assignment) == PARTITIONS // 2
        await until(lambda: len(second.assignment) == PARTITIONS, "the new one goes on alone")
        async with running(second.run(lambda record: topic.handle("new", record))):
            await topic.send(60)
            await until(lambda: topic.complete)
    assert all(times == 1 for times in topic.read.values())


def chooses(topic: Topic, **options: Any) -> Consumer:
    """A member that has no option of one of the protocols."""
    return Consumer(
        topic.name,
        group_id=topic.group,
        bootstrap_servers=topic.kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        **options,
    )


async def share(topic: Topic, *members: tuple[Consumer, int]) -> list[str | None]:
    """The protocols of members that share the topic as they should, and read it."""
    for one, count in members:
        await until(lambda one=one, count=count: len(one.assignment) == count, "its part", 60)
    tasks = [running(one.run(lambda record: topic.handle("ours", record))) for one, _ in members]
    async with AsyncExitStack() as stack:
        for each in tasks:
            await stack.enter_async_context(each)
        await topic.send(60)
        await until(lambda: topic.readers.get("ours"), "ours reads")
    return [one.health().group_protocol for one, _ in members]


async def test_new_groups_and_those_of_kip_848_are_joined_by_kip_848(topic: Topic) -> None:
    async with chooses(topic) as first:
        assert await share(topic, (first, PARTITIONS)) == ["consumer"]
        async with topic.consumer(group_protocol="consumer") as theirs, chooses(topic) as second:
            found = await share(topic, (first, 2), (theirs, 2), (second, 2))
            assert found == ["consumer"] * 3
    async with chooses(topic) as later:
        assert await share(topic, (later, PARTITIONS)) == ["consumer"]


async def test_an_empty_group_is_joined_by_kip_848_at_its_offsets(topic: Topic) -> None:
    await topic.send(60)
    async with running(topic.consume("old", group_protocol="classic")):
        await until(lambda: topic.complete)
    async with topic.admin() as admin:
        assert (await admin.describe_groups(topic.group))[topic.group].type == "classic"
        async with chooses(topic) as consumer:
            assert await share(topic, (consumer, PARTITIONS)) == ["consumer"]
        assert (await admin.describe_groups(topic.group))[topic.group].type == "consumer"
    assert all(times == 1 for times in topic.read.values())


@pytest.mark.parametrize("theirs", ["aiokafka", "range", "cooperative-sticky", "sticky"])
async def test_a_group_of_other_clients_stays_classic(topic: Topic, theirs: str) -> None:
    """aiokafka's own strategy is round robin; the others are librdkafka's and ours."""
    servers = topic.kafka.bootstrap_servers
    async with AsyncExitStack() as stack, topic.admin() as admin:

        async def partitions() -> list[int]:
            with suppress(GroupIdNotFoundError):
                found = (await admin.describe_groups(topic.group))[topic.group]
                return [len(each.partitions or ()) for each in found.members]
            return []

        async def is_assigned() -> bool:
            return await partitions() == [PARTITIONS]

        if theirs == "aiokafka":
            member = aiokafka.AIOKafkaConsumer(
                topic.name,
                group_id=topic.group,
                bootstrap_servers=servers,
                heartbeat_interval_ms=300,
            )
            await member.start()
            stack.push_async_callback(member.stop)
        elif theirs == "sticky":
            await stack.enter_async_context(topic.consumer(partition_assignment_strategy=theirs))
        else:
            conf = {
                "bootstrap.servers": servers,
                "group.id": topic.group,
                "partition.assignment.strategy": theirs,
                "heartbeat.interval.ms": 300,
            }
            stack.enter_context(polled(ConfluentConsumer(conf), topic.name))
        await until(is_assigned, "their member has all partitions", 60)
        async with chooses(topic) as ours:
            assert await share(topic, (ours, PARTITIONS // 2)) == ["classic"]
            assert sorted(await partitions()) == [PARTITIONS // 2] * 2
            assert (await admin.describe_groups(topic.group))[topic.group].type == "classic"


@contextmanager
def polled(member: Any, topic: str) -> Iterator[None]:
    """A member of librdkafka's in a thread."""
    stop = Event()

    def poll() -> None:
        member.subscribe([topic])
        while not stop.is_set():
            member.poll(0.1)
        member.close()

    thread = Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("config", "protocol"),
    [
        ({"group.coordinator.rebalance.protocols": "classic"}, "classic"),
        ({"group.consumer.migration.policy": "disabled"}, "consumer"),
    ],
)
async def test_brokers_decide_which_protocols_there_are(
    kafka_distribution: KafkaDistribution, config: dict[str, str], protocol: str
) -> None:
    with KafkaCluster(brokers=1, config=config) as kafka:
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            topic = Topic(kafka, producer)
            await kafka.create_topic(topic.name, PARTITIONS)
            async with chooses(topic) as first, chooses(topic) as second:
                assert await share(topic, (first, 3), (second, 3)) == [protocol] * 2
            if protocol == "consumer":
                async with topic.consumer() as theirs:
                    await until(lambda: len(theirs.assignment) == PARTITIONS)
                    async with chooses(topic) as ours:
                        assert await share(topic, (ours, 3), (theirs, 3)) == ["classic"] * 2


async def test_a_record_in_work_is_read_again_by_whoever_goes_on(topic: Topic) -> None:
    await topic.send(1)

    def fail(record: ConsumerRecord) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await topic.consume("a", fail)
    async with running(topic.consume("b")):
        await until(lambda: topic.complete)
    assert topic.read == {0: 1}


@each_protocol
async def test_a_revocation_waits_for_the_record_in_work(topic: Topic, protocol: str) -> None:
    await topic.send(PARTITIONS)
    async with topic.consumer(group_protocol=protocol) as slow:
        record = await anext(aiter(slow))
        async with running(topic.consume("b", group_protocol=protocol)):
            await asyncio.sleep(2)
            where = record.partition
            assert where not in topic.readers.get("b", ()), "the group waits for the record"
            await slow.commit()
            await until(lambda: "b" in topic.readers, "the second member has its part")
            await until(lambda: len(slow.assignment) == PARTITIONS // 2, "each has its part")
    assert int(record.value or b"") not in topic.read


async def read_and_block(topic: Topic, protocol: str, seconds: float, stop: Event) -> None:
    """A member whose handler holds the loop with the first record."""
    async with topic.consumer(group_protocol=protocol) as consumer:
        async for record in consumer:
            if "blocked" not in topic.readers:
                time.sleep(seconds)
            topic.took("blocked", record.value or b"", record.partition)
            await asyncio.sleep(0.001)
            if stop.is_set():
                consumer.finish()


@pytest.mark.parametrize(
    ("protocol", "seconds"),
    [
        ("classic", 9),
        ("consumer", 9),
        pytest.param("classic", 60, marks=pytest.mark.soak),
        pytest.param("consumer", 60, marks=pytest.mark.soak),
    ],
)
async def test_a_member_with_a_blocked_loop_is_replaced(
    topic: Topic, protocol: str, seconds: float
) -> None:
    """Its session ends; on waking it hands out nothing of what it had read ahead."""
    await topic.send(60)
    stop, blocked = Event(), read_and_block
    thread = asyncio.create_task(
        asyncio.to_thread(asyncio.run, blocked(topic, protocol, seconds, stop))
    )
    await asyncio.sleep(3)
    async with running(topic.consume("b", group_protocol=protocol)):
        await until(lambda: len(topic.read) == 60, "b has all partitions", 2 * seconds + 30)
        await until(lambda: "blocked" in topic.readers, "the other one wakes", 2 * seconds + 30)
        ours = topic.readers["blocked"] = set()
        for _ in range(100):
            await topic.send(PARTITIONS)
            await until(lambda: topic.complete, "both read on", 60)
            if len(ours) == PARTITIONS // 2:
                break
            await asyncio.sleep(0.3)
        stop.set()
        while not thread.done():
            await topic.send(PARTITIONS)
            await asyncio.sleep(0.3)
        await thread
    assert len(ours) == PARTITIONS // 2, "it is a member again"
    assert sum(topic.read.values()) <= len(topic.read) + 1, "the record in work alone came twice"


async def test_commits_are_those_that_were_asked_for(topic: Topic) -> None:
    await topic.send(12)
    async with topic.consumer(auto_commit=False) as consumer:
        records = aiter(consumer)
        read = [await anext(records) for _ in range(4)]
        await consumer.commit()
        await anext(records)
    found: dict[TopicPartition, int] = {}
    for record in read:
        found[TopicPartition(record.topic, record.partition)] = record.offset + 1
    rows = {int(row[2]): row[3] for row in await topic.described()}
    assert {where.partition: str(at) for where, at in found.items()}.items() <= rows.items()


async def test_a_group_that_may_not_be_joined_is_an_error_of_the_next_read(topic: Topic) -> None:

    async with running(topic.consume("a")):
        await topic.send(6)
        await until(lambda: topic.complete)
        async with topic.consumer(partition_assignment_strategy="sticky") as other:
            with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL"):
                await anext(aiter(other))


async def test_a_join_may_wait_longer_than_other_requests(topic: Topic) -> None:
    """The coordinator answers when the slowest member has joined again."""
    await topic.send(PARTITIONS)
    async with topic.consumer() as slow:
        await anext(aiter(slow))
        options: dict[str, Any] = {"request_timeout_ms": 1_000, "max_block_ms": 20_000}
        async with running(topic.consume("b", **options)) as tasks:
            await asyncio.sleep(4)
            await slow.commit()
            began = asyncio.get_running_loop().time()
            await until(lambda: "b" in topic.readers, "the second member has its part")
            assert asyncio.get_running_loop().time() - began < 3, "it was still in the group"
            assert not tasks[0].done()


async def test_a_record_that_a_loop_left_comes_again_in_the_next_loop(topic: Topic) -> None:
    await topic.send(1)
    async with topic.consumer() as consumer:

        async def fail() -> None:
            async for _record in consumer:
                raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await fail()
        await topic.consume_one(consumer)
    assert topic.read == {0: 1}


async def test_two_loops_of_one_consumer_are_refused(topic: Topic) -> None:
    await topic.send(2)
    async with topic.consumer() as consumer:
        first, second = aiter(consumer), aiter(consumer)
        await anext(first)
        with pytest.raises(IllegalStateError, match="another loop works on a record"):
            await anext(second)
        await anext(first)


@each_protocol
async def test_a_record_that_takes_too_long_costs_the_partitions_and_not_the_consumer(
    topic: Topic, protocol: str
) -> None:
    await topic.send(PARTITIONS)
    options: dict[str, Any] = {"max_poll_interval_ms": 2_000, "group_protocol": protocol}
    async with topic.consumer(**options) as slow:
        records = aiter(slow)
        await anext(records)
        async with running(topic.consume("b", **options)):
            await until(lambda: topic.complete, "the other member reads them all", 60)
        await topic.send(PARTITIONS)
        async with asyncio.timeout(30):
            record = await anext(records)
        assert int(record.value or b"") >= PARTITIONS, "it goes on where the other one left"


@each_protocol
async def test_a_record_that_hangs_again_costs_the_partitions_again(
    topic: Topic, protocol: str
) -> None:
    await topic.send(1)
    options: dict[str, Any] = {"max_poll_interval_ms": 2_000, "group_protocol": protocol}
    async with topic.consumer(**options) as consumer:

        def losses() -> float:
            metrics: Any = consumer.metrics()["consumer-coordinator-metrics"]
            return float(metrics["failed-rebalance-total"])

        records = aiter(consumer)
        for times in (1, 2):
            async with asyncio.timeout(30):
                assert (await anext(records)).offset == 0
            await until(lambda times=times: losses() == times, "it has left", 20)


async def test_a_static_member_that_was_replaced_reads_no_more(topic: Topic) -> None:
    await topic.send(600)
    async with topic.consumer(group_instance_id="one") as old:
        records = aiter(old)
        await anext(records)
        async with running(topic.consume("new", group_instance_id="one")):
            await until(lambda: "new" in topic.readers, "the new one has the partitions")

            async def read_on() -> None:
                while True:
                    await anext(records)
                    await asyncio.sleep(0.05)

            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await asyncio.wait_for(read_on(), 20)


async def test_a_closed_consumer_hands_out_nothing(topic: Topic) -> None:
    await topic.send(600)
    consumer = topic.consumer()
    await consumer.start()
    records = aiter(consumer)
    await anext(records)
    await consumer.close()
    with pytest.raises(ClientClosedError):
        await anext(records)


async def test_members_get_partitions_of_their_racks(kafka: KafkaCluster) -> None:
    """KIP-881, with one replica for each partition: the brokers 1 and 3 are in the rack north."""
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": "racks",
        "partition_assignment_strategy": "range",
    }
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        await admin.create_topic("racks", assignment={0: [2], 1: [1], 2: [2], 3: [3]})
    async with (
        Consumer("racks", client_id="a", client_rack="north", **options) as first,
        Consumer("racks", client_id="b", client_rack="south", **options) as second,
    ):
        await until(lambda: len(first.assignment) == len(second.assignment) == 2, "both have two")
        assert {where.partition for where in second.assignment} == {0, 2}


END_OF_A_RUN = """
import asyncio, sys
from aioproducer import Producer
from aioproducer.consumer import Consumer

SERVERS, TOPIC, GROUP, PROTOCOL, WAY = sys.argv[1:]


async def handle(record):
    values.append(record.value)
    if len(values) == 60:
        in_hand.set()
        await asyncio.sleep(3600)


async def copy():
    options = {"bootstrap_servers": SERVERS}
    async with (
        Producer(**options) as producer,
        Consumer(
            TOPIC, group_id=GROUP, group_protocol=PROTOCOL, auto_offset_reset="earliest", **options
        ) as consumer,
    ):
        if WAY == "run":
            await consumer.run(handle, concurrency=1)
        async for record in consumer:
            producer.send(TOPIC + "-copy", record.value)
            await handle(record)


async def main():
    global in_hand, values
    in_hand, values = asyncio.Event(), []
    task = asyncio.create_task(copy())
    await asyncio.wait({task, asyncio.ensure_future(in_hand.wait())}, return_when="FIRST_COMPLETED")


factory = None
if WAY == "loop":
    import uvloop
    factory = uvloop.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
print(len(values))
"""


@each_protocol
@pytest.mark.parametrize("way", ["loop", "run"])
async def test_the_end_of_a_run_commits_and_leaves(topic: Topic, protocol: str, way: str) -> None:
    """The sixtieth of a hundred records is in hand when the program ends."""
    await topic.kafka.create_topic(f"{topic.name}-copy", 1)
    await topic.send(100)
    arguments = [topic.kafka.bootstrap_servers, topic.name, topic.group, protocol, way]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        END_OF_A_RUN,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, said = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, printed, said) == (0, b"60\n", b"")
    async with topic.admin() as admin:
        offsets = await admin.group_offsets(topic.group)
        assert sum(each.offset for each in offsets.values()) == 59
        [described] = (await admin.describe_groups([topic.group])).values()
        assert described.members == ()
    if way == "loop":
        copies = await asyncio.to_thread(read_topic, topic.kafka, f"{topic.name}-copy")
        assert len(copies) == 60


TRANSACTIONS, OF_RECORDS = 20, 30


@pytest.mark.parametrize("kind", [Squid, Microsocks])
async def test_each_record_is_read_once_when_it_is_killed(
    topic: Topic, kind: type[RealProxy]
) -> None:
    with kind(asks_for_login=True) as proxy:
        options: dict[str, Any] = {
            "proxy_url": proxy.url(login=kind.login),
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 50,
        }

        async def send() -> None:
            async with Producer(
                bootstrap_servers=topic.kafka.bootstrap_servers,
                transactional_id=topic.name,
                **options,
            ) as producer:
                for number in range(TRANSACTIONS):
                    async with producer.transaction():
                        for _ in range(OF_RECORDS):
                            producer.send(topic.name, b"%d" % topic.sent)
                            topic.sent += 1
                        if number == TRANSACTIONS // 2:
                            proxy.kill()
                            await asyncio.sleep(0.2)
                            proxy.start()

        async with asyncio.timeout(PATIENCE), topic.consumer(**options) as consumer:
            sending = asyncio.create_task(send())
            async for record in consumer:
                topic.took("one", record.value or b"", record.partition)
                if len(topic.read) == TRANSACTIONS * OF_RECORDS:
                    break
            await sending
    assert topic.complete
    assert set(topic.read.values()) == {1}
