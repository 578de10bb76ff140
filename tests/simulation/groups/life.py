"""The life of a group: its members, its faults, and the oracles that watch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aioproducer import Producer, ProducerTimeoutError, TransactionError
from aioproducer.consumer import Consumer
from aioproducer.errors import ClientClosedError, ConfigError, GroupIdNotFoundError
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, ClusterOptions
from aioproducer.testing.simulation.network import Connection
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.simulation.groups.plan import LEDGER, PLAYTIME, Call, GroupPlan, MemberPlan
from tests.simulation.knobs import tuned
from tests.support.simulated_world import loop_of, model_of, network_of, run_in

RESULTS: Final = "results"
GROUP: Final = "group"
PATIENCE: Final = 400
"""Seconds after the last fault in which everything has to be read."""
LONGEST_CLOSE: Final = 16.0
SESSION_MS: Final = 10_000
LONGEST_WORK: Final = 20.0
"""Seconds that a record may take (``max_poll_interval_ms``)."""
HANG: Final = 45.0
"""Seconds for which a handler hangs."""
MOST_HANGS: Final = 2
SLACK: Final = 4.0
"""Seconds after which a member that hangs has been noticed."""


class PlannedError(Exception):
    """The error of a handler, as planned."""


class GroupLife:
    """Lives a plan once; :attr:`violations` says which promises were broken."""

    def __init__(self, plan: GroupPlan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        options = ClusterOptions(group_consumer_migration_policy=plan.policy)
        self.world = SimulatedWorld(plan.seed, plan.brokers, options=options)
        cluster = self.world.cluster
        for topic in plan.topics:
            cluster.create_topic(topic, plan.partitions)
        cluster.create_topic(RESULTS, 2)
        self.records: dict[tuple[TopicPartition, int], int] = {}
        """The numbers of the ledger by partition and offset."""
        self.began: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.finished_places: set[tuple[TopicPartition, int]] = set()
        self.failed: set[int] = set()
        self.starts: Counter[str] = Counter()
        self.hangs = 0
        """The times that a handler hung."""
        self.consumers: dict[str, Consumer] = {}
        """The present consumer of each member."""
        self.wanted: dict[str, tuple[str, ...]] = {}
        """The topics to which a member has subscribed last."""
        self.peace = asyncio.Event()
        self._watch_commits()

    # --- oracles ---------------------------------------------------------------------------

    def broken(self, what: str) -> None:
        self.violations.append(f"{self.world.now:.3f} {what}")

    def _watch_commits(self) -> None:
        """No commit passes a record that is not done."""
        offsets = model_of(self.world).coordinators.groups.offsets
        take = offsets.commit

        def commit(group: str, found: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            take(group, found)
            for where, at in found.items():
                self._check_commit(where, at.offset)

        offsets.commit = commit  # type: ignore[method-assign, assignment]

    def _check_commit(self, where: TopicPartition, offset: int) -> None:
        if self.plan.transactional:
            return  # the results are the oracle
        for (partition, at), number in self.records.items():
            passed = partition == where and at < offset
            if passed and (partition, at) not in self.finished_places:
                self.broken(f"a commit of {where} at {offset} passes record {number} at {at}")
                return

    def _got(self, member: str, record: ConsumerRecord) -> int:
        number = int(record.value or b"")
        place = record.topic_partition, record.offset
        if self.records.setdefault(place, number) != number:
            self.broken(f"{place} was another record before")
        self.began[number] += 1
        return number

    def _finished(self, record: ConsumerRecord) -> None:
        self.done[int(record.value or b"")] += 1
        self.finished_places.add((record.topic_partition, record.offset))

    def _see(self, member: MemberPlan, *records: ConsumerRecord) -> None:
        """A member gets records, or begins with one, now."""
        wanted = self._wanted_by(member)
        for each in records:
            if each.topic not in wanted:
                self.broken(f"{member.name} got a record of {each.topic}, and wants {wanted}")

    def _wanted_by(self, member: MemberPlan) -> tuple[str, ...]:
        return self.wanted.get(member.name, self.plan.topics)

    # --- members ---------------------------------------------------------------------------

    def _options(self, member: MemberPlan) -> dict[str, Any]:
        of_protocol: dict[str, Any] = {}
        if member.protocol is not None:
            of_protocol = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 1_000}
        if member.protocol == "classic":
            of_protocol["partition_assignment_strategy"] = self.plan.strategy
        return {
            "group_id": GROUP,
            "client_id": self._client_id(member),
            "bootstrap_servers": self.world.cluster.bootstrap_servers,
            "group_protocol": member.protocol,
            **of_protocol,
            "group_instance_id": member.instance,
            "auto_offset_reset": "earliest",
            "max_poll_interval_ms": int(LONGEST_WORK * 1000),
            "metadata_max_age_ms": 5_000,
            "request_timeout_ms": 10_000,
            "isolation_level": "read_committed" if self.plan.transactional else "read_uncommitted",
        }

    def _callbacks(self, member: MemberPlan, owned: set[TopicPartition]) -> dict[str, Any]:
        """Each partition begins and ends in turn; ``owned``: those that have begun."""

        def began(partitions: Collection[TopicPartition]) -> None:
            if owned & {*partitions}:
                self.broken(f"{member.name} got {min(owned & {*partitions})} twice")
            owned.update(partitions)

        def ended(partitions: Collection[TopicPartition]) -> None:
            if {*partitions} - owned:
                self.broken(f"{member.name} heard of another end of {min({*partitions} - owned)}")
            owned.difference_update(partitions)

        return {"on_assigned": began, "on_revoked": ended, "on_lost": ended}

    def _client_id(self, member: MemberPlan) -> str:
        """Another one for each start: members of a group are sorted by it.

        The number that a process gives would depend on the lives before.
        """
        self.starts[member.name] += 1
        return f"{member.name}-{self.starts[member.name]:04}"

    @asynccontextmanager
    async def _consumer(self, member: MemberPlan) -> AsyncIterator[Consumer]:
        owned: set[TopicPartition] = set()
        topics, options = self._wanted_by(member), self._options(member)
        consumer = Consumer(*topics, **options, **self._callbacks(member, owned))
        await consumer.start()
        self.consumers[member.name] = consumer
        try:
            yield consumer
        finally:
            began = self.world.now
            del self.consumers[member.name]
            if member.way == "vanish" and asyncio.current_task().cancelling():  # type: ignore[union-attr]
                await vanish(consumer)
            else:
                await consumer.close()
                if owned:
                    self.broken(f"{member.name} never heard of the end of {min(owned)}")
                if self.world.now - began > LONGEST_CLOSE and not self._froze:
                    self.broken(f"{member.name}: close() took {self.world.now - began:.1f} s")

    async def _work(self, member: MemberPlan, record: ConsumerRecord) -> None:
        number = self._got(member.name, record)
        if member.work:
            await asyncio.sleep(member.work)
        if number == self.plan.hangs_at and self.hangs < MOST_HANGS:
            self.hangs += 1
            await self._hang(member)
        if number == member.fails_at and number not in self.failed:
            self.failed.add(number)
            raise PlannedError

    async def _hang(self, member: MemberPlan) -> None:
        """Hang with a record: the member has no partition any more when that took too long."""
        consumer = self.consumers[member.name]

        def look() -> None:
            kept = consumer._assignment.owned
            asks = self._acknowledges(member)  # for more, meanwhile: it may be back already
            if kept and not asks and not self._froze:
                self.broken(f"{member.name} hangs, and keeps {min(kept)}")

        look_at = asyncio.get_running_loop().call_later(LONGEST_WORK + SLACK, look)
        try:
            await asyncio.sleep(HANG)
        finally:
            look_at.cancel()

    async def _member(self, member: MemberPlan) -> None:
        await asyncio.sleep(member.begins)
        while True:
            try:
                async with self._consumer(member) as consumer:
                    await self._read(member, consumer)
            except (PlannedError, TransactionError, ProducerTimeoutError):
                continue  # as a supervisor would
            except Exception as error:
                fenced = member.instance is not None and "FENCED_INSTANCE_ID" in str(error)
                if not fenced and not self._comes_too_early(member, error):
                    self.broken(f"{member.name} has ended: {error!r}")
                    return
                await asyncio.sleep(1)

    def _comes_too_early(self, member: MemberPlan, error: Exception) -> bool:
        """A member whose protocol is set can't convert a group before its first assignment."""
        mixed = len({each.protocol for each in self.plan.members}) > 1
        return mixed and member.protocol == "consumer" and isinstance(error, GroupIdNotFoundError)

    async def _read(self, member: MemberPlan, consumer: Consumer) -> None:
        mode = member.mode
        if mode == "transactions":
            await self._read_transactions(member, consumer)
        elif mode == "loop":
            last: ConsumerRecord | None = None
            records = aiter(consumer)
            while True:
                if last is not None:
                    self._finished(last)
                last = await anext(records)
                self._see(member, last)
                await self._work(member, last)
        elif mode in ("lists", "batches"):
            batches: Any = consumer.lists(7) if mode == "lists" else consumer.batches()
            given: list[ConsumerRecord] = []
            while True:
                for record in given:
                    self._finished(record)
                given = list(await anext(batches))
                self._see(member, *given)
                for record in given:
                    await self._work(member, record)
        elif mode == "by call":
            while True:
                found = await consumer.record(max_wait_ms=500)
                if found is not None:
                    self._see(member, found)
                    await self._work(member, found)
                    self._finished(found)
        elif self._acknowledges(member):
            await self._read_singly(member, consumer)
        else:
            order: Any = {"run": "partition", "run by key": "key", "run freely": "none"}[mode]

            async def handle(record: ConsumerRecord) -> None:
                self._see(member, record)
                await self._work(member, record)
                self._finished(record)

            await consumer.run(handle, concurrency=5, order=order)

    def _acknowledges(self, member: MemberPlan) -> bool:
        """True if a member acknowledges records one by one."""
        return member.mode == "singly" or (member.mode == "run freely" and self.plan.seed % 2 > 0)

    async def _read_singly(self, member: MemberPlan, consumer: Consumer) -> None:
        async def work(record: ConsumerRecord) -> None:
            await self._work(member, record)
            self._finished(record)
            consumer.acknowledge(record)

        failed = False
        try:
            async with asyncio.TaskGroup() as tasks:
                async for record in consumer.unacknowledged(7):
                    self._see(member, record)
                    tasks.create_task(work(record))
        except* PlannedError:
            failed = True
        if failed:
            raise PlannedError

    async def _read_transactions(self, member: MemberPlan, consumer: Consumer) -> None:
        async with Producer(
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            client_id=f"producer-{member.name}",
            transactional_id=member.name,
            transaction_timeout_ms=15_000,
        ) as producer:
            async for work in consumer.transactions(producer, max_records=20):
                self._see(member, *work)
                async with work:
                    for record in work:
                        await self._work(member, record)
                        producer.send(RESULTS, record.value)
                for record in work:
                    self._finished(record)

    # --- faults ----------------------------------------------------------------------------

    _froze = False

    def _fault(self, kind: str, arguments: tuple[Any, ...]) -> None:
        cluster, later = self.world.cluster, loop_of(self.world).outside.call_later
        match kind:
            case "cut":
                cluster.cut(*arguments)
            case "stall":
                cluster.stall(arguments[0])
                later(arguments[1], lambda: cluster.release(arguments[0]))
            case "crash":
                cluster.crash(arguments[0])
                later(arguments[1], lambda: cluster.restart(arguments[0]))
            case "lose":
                cluster.lose_next_response(arguments[0], times=arguments[1])
            case "slow":
                cluster.set_latency(arguments[0] / 2, arguments[0])
                later(arguments[1], lambda: cluster.set_latency(0.001, 0.005))
            case "move":
                cluster.move_leader(LEDGER, *arguments)
            case "coordinator":
                where = model_of(self.world).coordinators.groups.partition_of(GROUP).where
                cluster.move_leader(GROUPS_TOPIC, where.partition, arguments[0])

    async def _freeze_at(self, seconds: float, length: float) -> None:
        await asyncio.sleep(seconds)
        self._froze = True
        self.world.freeze(length)

    # --- calls -----------------------------------------------------------------------------

    async def _call(self, call: Call) -> None:
        await asyncio.sleep(call.at)
        consumer = self.consumers.get(call.member)
        if call.topics:
            self.wanted[call.member] = call.topics
            if consumer is not None:
                consumer.subscribe(*call.topics)
        elif consumer is not None and (owned := sorted(consumer.assignment)):
            gone = ConfigError, ClientClosedError, ProducerTimeoutError  # meanwhile
            with suppress(*gone):
                await consumer.seek(owned[int(call.which * len(owned))], "committed")

    def _misassigned(self) -> str:
        """The first fault of the present assignment; empty: members have what they want, and no
        partition is left."""
        owned: Counter[TopicPartition] = Counter()
        for name, consumer in self.consumers.items():
            for where in consumer.assignment:
                owned[where] += 1
                if where.topic not in self.wanted.get(name, self.plan.topics):
                    return f"{name} keeps {where}"
        for topic in self.plan.topics:
            for number in range(self.plan.partitions):
                if (times := owned[TopicPartition(topic, number)]) != 1:
                    return f"{times} members have {topic}-{number}"
        return ""

    # --- the life --------------------------------------------------------------------------

    async def _write(self) -> None:
        async with Producer(
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            client_id="writer",
            delivery_timeout_ms=600_000,
            metadata_max_age_ms=5_000,
            partitioner="round_robin",
        ) as producer:
            topics = self.plan.topics
            for number in range(self.plan.records):
                key = b"%d" % (number % 11) if number % 3 else None
                topic = topics[number % 5 % len(topics)]
                producer.send(topic, b"%d" % number, key=key)
                await asyncio.sleep(PLAYTIME / self.plan.records)
            await producer.flush()

    async def live(self) -> None:
        plan = self.plan
        freezes = [
            asyncio.ensure_future(self._freeze_at(at, arguments[0]))
            for at, kind, arguments in plan.faults
            if kind == "freeze"
        ]
        for at, kind, arguments in plan.faults:
            if kind != "freeze":
                self.world.at(at, lambda kind=kind, args=arguments: self._fault(kind, args))  # type: ignore[misc]
        calls = [asyncio.ensure_future(self._call(each)) for each in plan.calls]
        members = {each: asyncio.ensure_future(self._member(each)) for each in plan.members}
        enders = [
            asyncio.ensure_future(self._end(members[each], each.ends))
            for each in plan.members
            if each.ends is not None
        ]
        await self._write()
        await asyncio.gather(*freezes, *enders, *calls)
        for _ in range(PATIENCE):
            if self._complete() or self.violations:
                break
            await asyncio.sleep(1)
        if not self._complete():
            missing = sorted(set(range(plan.records)) - self._read_numbers())
            self.broken(f"{len(missing)} records were never done: {missing[:5]}")
        elif not self.violations:
            await self._catch_up()
        for task in members.values():
            task.cancel()
        await asyncio.gather(*members.values(), return_exceptions=True)
        self._judge()

    async def _catch_up(self) -> None:
        """The lag gets to 0, also behind records that no member gets."""
        if self.plan.transactional:
            await self._write_aborted()
        for _ in range(PATIENCE):
            lags, fault = self._lags(), self._misassigned()
            if not (lags or fault):
                return
            await asyncio.sleep(1)
        self.broken(f"the lag stays above 0: {lags}" if lags else fault)

    async def _write_aborted(self) -> None:
        async with Producer(
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            client_id="aborts",
            transactional_id="aborts",
            max_block_ms=PATIENCE * 1_000,  # brokers may still be down
            transaction_timeout_ms=PATIENCE * 1_000,
        ) as producer:
            await producer.begin_transaction()
            for topic in self.plan.topics:
                for partition in range(self.plan.partitions):
                    await producer.send(topic, b"aborted", partition=partition)
            await producer.abort_transaction()

    def _lags(self) -> dict[TopicPartition, tuple[int, int]]:
        """The committed offset and the end of each partition that lags."""
        found = {}
        committed = self.world.cluster.committed_offsets(GROUP)
        topics = [model_of(self.world).topic(name) for name in self.plan.topics]
        for partition in [each for topic in topics for each in topic.partitions]:
            at, end = committed.get(partition.where), partition.high_watermark
            offset = 0 if at is None else at.offset
            if offset != end:
                found[partition.where] = offset, end
        return found

    async def _end(self, task: asyncio.Task[None], seconds: float) -> None:
        await asyncio.sleep(seconds)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def _read_numbers(self) -> set[int]:
        if not self.plan.transactional:
            return set(self.done)
        return {int(each.value or b"") for each in self.world.cluster.records(RESULTS)}

    def _complete(self) -> bool:
        return len(self._read_numbers()) == self.plan.records

    def _judge(self) -> None:
        if self.plan.transactional:
            found = Counter(int(each.value or b"") for each in self.world.cluster.records(RESULTS))
            twice = sorted(number for number, times in found.items() if times > 1)
            if twice:
                self.broken(f"{len(twice)} results are there twice: {twice[:5]}")
        elif self.plan.is_calm:
            twice = sorted(number for number, times in self.done.items() if times > 1)
            if twice:
                self.broken(f"{len(twice)} records were done twice in a calm life: {twice[:5]}")


async def vanish(consumer: Consumer) -> None:
    """End a member as a killed process does: without a commit, without a farewell."""
    for task in consumer._tasks:
        task.cancel()
    await asyncio.wait(consumer._tasks)
    consumer._assignment.end()
    await consumer._link.close()
    await consumer._client.close()


def watch(world: SimulatedWorld, trace: Callable[[bytes], None]) -> None:
    """Have ``trace`` called with the bytes of each connection of ``world``, and their time."""

    def note(data: bytes) -> None:
        trace(b"%.9f" % world.now + bytes(data))

    def connected(connection: Connection) -> None:
        connection.requests.on_put = connection.responses.on_put = note

    network_of(world).on_connection = connected


def lived(plan: GroupPlan, trace: Callable[[bytes], None] | None = None) -> list[str]:
    """The promises that a life has broken. ``trace`` gets what goes over the network, and when."""
    life = GroupLife(plan)
    if trace is not None:
        watch(life.world, trace)

    async def bounded() -> None:
        async with asyncio.timeout(5_000):
            await life.live()

    try:
        with tuned(plan.knobs):
            run_in(life.world, bounded())
    except BaseException as error:
        life.broken(f"the life ended with {error!r}")
    return life.violations
