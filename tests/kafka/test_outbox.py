"""The outbox example: each row of PostgreSQL is in Kafka once, whatever dies in between."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random, SystemRandom
from types import ModuleType
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from aioproducer import Producer, RecordTooLargeError
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.postgresql_server import PostgresqlServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

asyncpg = importlib.import_module("asyncpg")
FOLDER: Final = Path(__file__).parents[2] / "examples" / "outbox"
SEED: Final = "AIOPRODUCER_OUTBOX_SEED"
PARTITIONS: Final = 3
CUSTOMERS: Final = 8
WRITERS: Final = 4
KILLS: Final = 4
PATIENCE: Final = 90.0
SLOWLY: Final = """
import asyncio, runpy, sys
from aioproducer import Producer
drain = Producer.drain
async def slow_drain(self):
    await asyncio.sleep(0.002)
    await drain(self)
Producer.drain = slow_drain
del sys.argv[0]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
import relay, logging
relay.ROWS = 40
delete_sent = relay.delete_sent
async def late_delete_sent(*arguments):
    await asyncio.sleep(0.1)
    await delete_sent(*arguments)
relay.delete_sent = late_delete_sent
logging.basicConfig(level=logging.INFO)
relay.loops.run(relay.main())
"""
"""The relay, slowly: small transactions, which a kill meets at every point."""

_NUMBERS: Final = count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the writer, or of the relay."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"outbox_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setattr(sys, "argv", [name])
        spec.loader.exec_module(module)
        return module

    return load


class Shop:
    """A database with the example's tables, and a topic for its rows."""

    def __init__(self, dsn: str, servers: str, topic: str) -> None:
        self.dsn = dsn
        self.servers = servers
        self.topic = topic
        self.environment = {
            **os.environ,
            "DSN": dsn,
            "RELAY": f"{topic}-relay",
            "MARKER_TOPIC": topic,
        }

    async def waiting(self) -> int:
        """The number of rows that are not sent, or not deleted yet."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return int(await connection.fetchval("SELECT count(*) FROM outbox"))
        finally:
            await connection.close()

    async def relayed(self) -> None:
        """Wait until all rows are sent."""
        async with asyncio.timeout(PATIENCE):
            while await self.waiting():  # noqa: ASYNC110  # the database does not tell
                await asyncio.sleep(0.05)

    async def orders(self) -> dict[str, int]:
        """The number of orders of each customer."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return dict(await connection.fetch("SELECT name, orders FROM customers"))
        finally:
            await connection.close()

    async def has_more_than(self, orders: int) -> None:
        """Wait until more orders were taken than that, however slow the machine is."""
        async with asyncio.timeout(PATIENCE):
            while sum((await self.orders()).values()) <= orders:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.05)

    async def check(self) -> int:
        """Each order is in the topic once, and those of a customer in their order."""
        expected = await self.orders()
        found = await asyncio.to_thread(self._read)
        assert found == {name: list(range(1, last + 1)) for name, last in expected.items()}
        return sum(expected.values())

    def _read(self) -> dict[str, list[int]]:
        """The numbers of each customer's orders as another client reads them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "none",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        found: dict[str, list[int]] = defaultdict(list)
        ended = 0
        try:
            consumer.assign([TopicPartition(self.topic, each, 0) for each in range(PARTITIONS)])
            while ended < PARTITIONS:
                for message in consumer.consume(1_000, 0.02):
                    if (error := message.error()) is not None:
                        assert error.code() == KafkaError._PARTITION_EOF
                        ended += 1
                        continue
                    order = json.loads(message.value() or b"")
                    assert message.key() == order["customer"].encode()
                    found[order["customer"]].append(order["number"])
        finally:
            consumer.close()
        return found


@pytest.fixture
async def shop(server: PostgresqlServer, kafka: KafkaCluster) -> Shop:
    name = f"outbox_{next(_NUMBERS)}"
    connection = await asyncpg.connect(server.dsn)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    dsn = server.dsn.replace("/postgres?", f"/{name}?")
    connection = await asyncpg.connect(dsn)
    await connection.execute((FOLDER / "schema.sql").read_text())
    await connection.close()
    topic = name.replace("_", "-")
    await kafka.create_topic(topic, PARTITIONS, replication_factor=3)
    return Shop(dsn, kafka.bootstrap_servers, topic)


# --- everything dies -----------------------------------------------------------------------------


class Relay:
    """One process of the relay."""

    def __init__(self, shop: Shop, children: ProcessSupervisor, log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._began = output.tell()
            self.process: subprocess.Popen[bytes] = children.start(
                [sys.executable, "-c", SLOWLY, str(FOLDER / "relay.py"), shop.servers],
                stdout=output,
                stderr=output,
                env=shop.environment,
            )

    def log(self) -> str:
        return self._log.read_bytes()[self._began :].decode("utf-8", "replace")

    async def started(self) -> None:
        """Wait until it sends rows."""
        async with asyncio.timeout(PATIENCE):
            while "starting after" not in self.log():
                assert self.process.poll() is None, self.log()
                await asyncio.sleep(0.02)


async def write(shop: Shop, writer: Any, random: Random, stop: asyncio.Event) -> None:
    """Take orders; a fifth of the transactions is rolled back, others get their xid early."""
    connection = None
    while not stop.is_set():
        try:
            if connection is None or connection.is_closed():
                connection = await asyncpg.connect(shop.dsn)
            transaction = connection.transaction()
            await transaction.start()
            if random.random() < 0.3:
                await connection.fetchval("SELECT pg_current_xact_id()")
                await asyncio.sleep(random.uniform(0, 0.2))
            for _ in range(random.choice((1, 1, 3))):
                await writer.order(connection, f"customer-{random.randrange(CUSTOMERS)}", "tea")
            await asyncio.sleep(random.uniform(0, 0.02))
            await (transaction.rollback() if random.random() < 0.2 else transaction.commit())
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await asyncio.sleep(0.1)  # the server restarts, or two writers waited for each other
    if connection is not None:
        connection.terminate()


async def test_every_row_is_in_kafka_once_whatever_dies(
    shop: Shop, server: PostgresqlServer, example: Any, tmp_path: Path
) -> None:
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(2**32))
    random, log = Random(seed), tmp_path / "relay.log"
    writer = example("writer")
    writer.TOPIC = shop.topic
    stop = asyncio.Event()
    with ProcessSupervisor() as children:
        relay = Relay(shop, children, log)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(write(shop, writer, Random(random.random()), stop))
            for kill in range(KILLS):
                await relay.started()
                await asyncio.sleep(random.uniform(0.1, 0.8))
                await asyncio.to_thread(children.kill, relay.process)
                if kill == KILLS // 2:
                    await asyncio.to_thread(server.stop_immediately)
                    await asyncio.to_thread(server.start)
                relay = Relay(shop, children, log)
            await relay.started()
            await asyncio.to_thread(server.stop_immediately)  # the relay lives through this one
            await asyncio.to_thread(server.start)
            await asyncio.sleep(0.5)
            await shop.has_more_than(100)
            stop.set()
        await shop.relayed()
        assert await asyncio.to_thread(children.stop, relay.process) == 0, relay.log()
        assert "trying again" in relay.log()
    orders = await shop.check()
    print(f"{SEED}={seed}: {orders} orders")
    assert orders > 100


async def test_a_second_relay_takes_over(shop: Shop, example: Any, tmp_path: Path) -> None:
    writer = example("writer")
    writer.TOPIC = shop.topic
    connection = await asyncpg.connect(shop.dsn)
    with ProcessSupervisor() as children:
        first = Relay(shop, children, tmp_path / "first.log")
        await writer.order(connection, "anna", "tea")
        await shop.relayed()
        second = Relay(shop, children, tmp_path / "second.log")
        async with asyncio.timeout(PATIENCE):
            while first.process.poll() is None:
                await writer.order(connection, "anna", "tea")
                await asyncio.sleep(0.02)
        assert "ProducerFencedError" in first.log()
        await shop.relayed()
        assert await asyncio.to_thread(children.stop, second.process) == 0, second.log()
    await connection.close()
    assert await shop.check() > 1


# --- the position --------------------------------------------------------------------------------


@asynccontextmanager
async def parts(shop: Shop, example: Any) -> AsyncIterator[tuple[Any, Producer, Any, Any]]:
    """The relay's module, its producer, its connection, and an order of the application."""
    relay, writer = example("relay"), example("writer")
    writer.TOPIC = shop.topic
    relay.NAME, relay.PLACE = f"{shop.topic}-relay", TopicPartition(shop.topic, 0)
    relay.PLACE = relay.TopicPartition(shop.topic, 0)
    connection = await asyncpg.connect(shop.dsn)
    async with Producer(bootstrap_servers=shop.servers, transactional_id=relay.NAME) as producer:
        yield relay, producer, connection, writer.order
    await connection.close()


async def test_a_row_that_becomes_visible_late_is_not_skipped(shop: Shop, example: Any) -> None:
    async with parts(shop, example) as (relay, producer, connection, order):
        late = await asyncpg.connect(shop.dsn)
        transaction = late.transaction()
        await transaction.start()
        await order(late, "late", "tea")  # with the lower id
        await order(connection, "early", "tea")
        position = await relay.read_position(producer, connection)
        position = await relay.send_next(producer, connection, position)
        assert position == (1, 0)
        assert await relay.send_next(producer, connection, position) is None
        await transaction.commit()
        await late.close()
        position = await relay.send_next(producer, connection, position)
        assert position == await relay.read_position(producer, connection) == (2, 0)
        await relay.delete_sent(connection, position)
        assert await shop.waiting() == 0
        assert await shop.check() == 2


async def test_a_window_is_sent_in_pages(shop: Shop, example: Any) -> None:
    async with parts(shop, example) as (relay, producer, connection, order):
        relay.ROWS = 3
        for _ in range(6):
            await order(connection, "anna", "tea")
        position = await relay.read_position(producer, connection)
        first = await relay.send_next(producer, connection, position)
        assert (first.window, first.last_id > 0) == (0, True)
        await order(connection, "anna", "tea")  # of the next window
        assert await relay.read_position(producer, connection) == first
        await relay.delete_sent(connection, first)
        assert await shop.waiting() == 4
        position = first
        while (behind := await relay.send_next(producer, connection, position)) is not None:
            position = behind
        assert position == (2, 0)
        await relay.delete_sent(connection, position)
        assert await shop.waiting() == 0
        assert await shop.check() == 7


async def test_a_window_whose_rows_were_moved_away_holds_nothing_up(
    shop: Shop, example: Any
) -> None:
    async with parts(shop, example) as (relay, producer, connection, order):
        await connection.execute(
            "INSERT INTO outbox (topic, value) VALUES ($1, $2)", shop.topic, bytes(2_000_000)
        )
        position = await relay.read_position(producer, connection)
        with pytest.raises(RecordTooLargeError):
            await relay.send_next(producer, connection, position)
        await connection.execute("DELETE FROM outbox")
        await order(connection, "anna", "tea")
        position = await relay.read_position(producer, connection)
        while (behind := await relay.send_next(producer, connection, position)) is not None:
            position = behind
        await relay.delete_sent(connection, position)
        assert await shop.waiting() == 0
        assert await shop.check() == 1


async def test_the_relay_sends_no_row_that_postgresql_may_forget(shop: Shop, example: Any) -> None:
    relay = example("relay")
    relay.DSN = shop.dsn
    connection = await asyncpg.connect(shop.dsn)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    async with relay.listening(asyncio.Event()) as connection:
        assert await connection.fetchval("SHOW synchronous_commit") == "on"


async def test_a_position_of_another_database_is_refused(shop: Shop, example: Any) -> None:
    async with parts(shop, example) as (relay, producer, connection, order):
        await order(connection, "anna", "tea")
        position = await relay.read_position(producer, connection)
        await relay.send_next(producer, connection, position)
        await connection.execute("DELETE FROM outbox_window WHERE number > 0")
        with pytest.raises(SystemExit, match="is not of this database"):
            await relay.read_position(producer, connection)
