"""Random programs read with our consumer as with aiokafka's, from a real Kafka.

A program is a list of steps from one seed: reads of one partition or of all, seeks, commits,
pauses, look-ups, other assignments and subscriptions, and mistakes. It runs on both clients, each
in a group of its own, on the same topics, which do not change. What does not depend on time has to
be equal: the records of each partition in their order, positions, offsets, and the kind of each
error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final
from uuid import uuid4

import aiokafka  # type: ignore[import-untyped]
import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest
from aiokafka import TopicPartition

from aioproducer import Producer
from aioproducer.compat.aiokafka import AIOKafkaConsumer
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

PARTITIONS: Final = 2
RECORDS: Final = 60
"""Records of each partition."""
TOPICS: Final = ("p1", "p2")
PATIENCE: Final = 90.0
FAST: Final = range(8)
SOAK: Final = range(8, 120)


async def written(kafka: KafkaCluster) -> tuple[str, ...]:
    """Two topics with batches of several sizes, some of them compressed."""
    names = tuple(f"programs-{name}-{uuid4().hex[:8]}" for name in TOPICS)
    random = Random(1)
    for name in names:
        await kafka.create_topic(name, PARTITIONS, 1)
        for partition in range(PARTITIONS):
            left = RECORDS
            while left:
                count = min(random.randrange(1, 20), left)
                options: dict[str, Any] = {"compression_type": random.choice(["none", "gzip"])}
                servers = kafka.bootstrap_servers
                async with Producer(bootstrap_servers=servers, **options) as producer:
                    for _ in range(count):
                        producer.send(
                            name,
                            b"%d" % left if random.random() < 0.9 else None,
                            key=random.randbytes(random.randrange(4)) or None,
                            partition=partition,
                            headers=[("h", random.randbytes(2))] if random.random() < 0.3 else None,
                            timestamp_ms=1_700_000_000_000 + 1_000 * (RECORDS - left),
                        )
                        left -= 1
                    await producer.flush()
    return names


class Run:
    """One program on one client; ``trace`` is what has to be equal."""

    def __init__(
        self, client: Any, kafka: KafkaCluster, topics: tuple[str, ...], seed: int
    ) -> None:
        self.trace: list[Any] = []
        self._random = random = Random(seed)
        self._topics = topics
        self._group = None if random.random() < 0.25 else f"programs-{uuid4().hex[:8]}"
        self._reset = random.choice(["earliest", "earliest", "none"])
        self._by_hand = random.random() < 0.5
        options = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": self._group,
            "enable_auto_commit": random.random() < 0.5,
            "auto_commit_interval_ms": 3_600_000,
            "auto_offset_reset": self._reset,
            "max_partition_fetch_bytes": random.choice([200, 1_000, 1_048_576]),
            "isolation_level": random.choice(["read_committed", "read_uncommitted"]),
        }
        self._consumer = client(**options)
        self._topic = random.choice(topics)

    @property
    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in range(PARTITIONS)]

    def _place(self) -> TopicPartition:
        return self._random.choice(self._places)

    async def __call__(self) -> list[Any]:
        self.choose()
        async with asyncio.timeout(PATIENCE), self._consumer:
            await self.begin()
            steps: list[Callable[[], Awaitable[None]]] = [
                self.one, self.one, self.many, self.many, self.everything, self.seek, self.ends,
                self.commit, self.commit_given, self.pause, self.look_up, self.mistake, self.other,
            ]  # fmt: skip
            for _ in range(self._random.randrange(6, 14)):
                step = self._random.choice(steps)
                self.note(step.__name__)
                await step()
        await self.expect(theirs.ConsumerStoppedError, self._consumer.getone())
        return self.trace

    def note(self, *what: Any) -> None:
        self.trace.append(what)

    def choose(self) -> None:
        """Subscribe, or assign the partitions.

        aiokafka refuses commits for a while if a member turns to partitions assigned by hand: it
        leaves the group some time after ``unsubscribe()``.
        """
        if self._by_hand:
            self._consumer.assign(self._places)
        else:
            self._consumer.subscribe([self._topic])

    async def begin(self) -> None:
        """Read from known positions on: without a reset there are none."""
        while self._consumer.assignment() != {*self._places}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if self._reset == "none":
            for place in self._places:
                self._consumer.seek(place, self._random.randrange(RECORDS))
        for place in self._places:
            self.note("begins", place, await self._consumer.position(place))

    async def expect(self, error: type[BaseException], call: Awaitable[Any]) -> None:
        with pytest.raises(error):
            await call
        self.note("refused", error.__name__)

    async def left(self, place: TopicPartition) -> int:
        return RECORDS - int(await self._consumer.position(place))

    # --- the steps ---------------------------------------------------------------------------

    async def one(self) -> None:
        place = self._place()
        for _ in range(min(self._random.randrange(1, 12), await self.left(place))):
            self.note(await self._consumer.getone(place))
        self.note("at", await self._consumer.position(place))

    async def many(self) -> None:
        place = self._place()
        wanted = min(self._random.randrange(1, 40), await self.left(place))
        while wanted:
            found = await self._consumer.getmany(place, timeout_ms=1_000, max_records=wanted)
            for each, records in found.items():
                assert each == place
                assert isinstance(each, TopicPartition)
                assert 0 < len(records) <= wanted
                self.trace.extend((record,) for record in records)
                wanted -= len(records)

    async def everything(self) -> None:
        """All that is left, of both partitions."""
        found: dict[Any, list[Any]] = {place: [] for place in self._places}
        while any([await self.left(place) for place in self._places]):
            for each, records in (await self._consumer.getmany(timeout_ms=500)).items():
                found[each] += records
        self.note(sorted(found.items()))
        self.note("end", await self._consumer.getmany(timeout_ms=100))
        for place in self._places:
            self._consumer.seek(place, self._random.randrange(RECORDS))

    async def seek(self) -> None:
        place, way = self._place(), self._random.randrange(4)
        if way == 0:
            self.note(await self._consumer.seek_to_beginning(place))
        elif way == 1:
            self.note(await self._consumer.seek_to_end())
            for each in self._places:
                self.note(await self._consumer.position(each))
            await self._consumer.seek_to_beginning()
        elif way == 2 and self._group is not None:
            found = await self._consumer.seek_to_committed()
            self.note(sorted(found.items()))
        else:
            self._consumer.seek(place, self._random.randrange(RECORDS + 1))
        self.note(await self._consumer.position(place))

    async def ends(self) -> None:
        self.note(sorted((await self._consumer.end_offsets(self._places)).items()))
        self.note(sorted((await self._consumer.beginning_offsets(self._places)).items()))

    async def commit(self) -> None:
        if self._group is None:
            await self.expect(theirs.IllegalOperation, self._consumer.commit())
            return
        await self._consumer.commit()
        for place in self._places:
            self.note(await self._consumer.committed(place))

    async def commit_given(self) -> None:
        place, offset = self._place(), self._random.randrange(RECORDS)
        call = self._consumer.commit({place: (offset, "m") if offset % 2 else offset})
        if self._group is None:
            await self.expect(theirs.IllegalOperation, call)
            return
        await call
        self.note(await self._consumer.committed(place))

    async def pause(self) -> None:
        place = self._place()
        self._consumer.pause(place)
        self.note(self._consumer.paused(), await self._consumer.getmany(place, timeout_ms=50))
        self._consumer.resume(place)
        self.note(self._consumer.paused())

    async def look_up(self) -> None:
        place, second = self._place(), self._random.randrange(RECORDS + 5)
        at = 1_700_000_000_000 + 1_000 * second
        self.note(await self._consumer.offsets_for_times({place: at}))
        self.note(self._consumer.partitions_for_topic(self._topic))
        self.note(set(self._topics) <= await self._consumer.topics())

    async def mistake(self) -> None:
        other = TopicPartition(self._topic, 99)
        consumer = self._consumer
        with pytest.raises(ValueError, match="positive"):
            consumer.seek(self._place(), -1)
        with pytest.raises(theirs.IllegalStateError):
            consumer.seek(other, 1)
        await self.expect(TypeError, consumer.seek_to_end("x"))
        await self.expect(theirs.IllegalStateError, consumer.seek_to_beginning(other))
        await self.expect(theirs.IllegalStateError, consumer.position(other))
        await self.expect(ValueError, consumer.getmany(max_records=0))
        if self._group is not None:
            await self.expect(ValueError, consumer.commit({}))
            await self.expect(TypeError, consumer.commit({self._place(): (1, 2)}))
            await self.expect(theirs.IllegalStateError, consumer.commit({other: 1}))

    async def other(self) -> None:
        """Read something else. aiokafka loses the commit that leaving the group may bring."""
        if self._group is not None:
            await self._consumer.commit()
        self._consumer.unsubscribe()
        self.note(self._consumer.assignment(), self._consumer.subscription())
        self._topic = self._random.choice(self._topics)
        self.choose()
        await self.begin()


async def run(kafka: KafkaCluster, topics: tuple[str, ...], seed: int) -> None:
    expected = await Run(aiokafka.AIOKafkaConsumer, kafka, topics, seed)()
    assert await Run(AIOKafkaConsumer, kafka, topics, seed)() == expected


@pytest.mark.parametrize("seed", FAST)
async def test_a_program(kafka: KafkaCluster, seed: int) -> None:
    await run(kafka, await written(kafka), seed)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
async def test_many_programs(kafka: KafkaCluster) -> None:
    topics = await written(kafka)
    for seed in SOAK:
        await run(kafka, topics, seed)
