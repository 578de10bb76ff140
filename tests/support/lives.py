"""Whole lives of clients, as a program: ``lives.py LIFE WAY SERVERS FOLDER``.

It prints every import after the client's start. ``WAY`` is ``quiet``, or ``troubled``: FOLDER, the
package's own, is renamed at the start, and at each step no file descriptor is free for a while.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from typing import Any, Final

from aioproducer.errors import KafkaError, ProducerError, RecordTooLargeError
from aioproducer.model import ConsumerGroupMetadata, ProducerRecord, TopicPartition

TOPIC: Final = "orders"
FAMINE: Final = 0.4
"""Seconds without a descriptor."""
STANDARD: Final = 3
"""Input, output and error; no other descriptor may be opened."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: Final[dict[str, Any]] = {
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 100,
}
PARTITION: Final = TopicPartition(TOPIC, 0)


class Watch:
    """Prints what is imported from now on, first in ``sys.meta_path``."""

    def __init__(self, way: str, folder: str) -> None:
        self._way = way
        self._folder = folder
        self._begun = False

    def begin(self) -> None:
        """The client has started."""
        if self._begun:
            return
        self._begun = True
        sys.meta_path.insert(0, self)
        if self._way == "troubled":
            os.rename(self._folder, f"{self._folder}-gone")

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        """Called by Python's import."""
        # traceback itself would read the sources, which may be gone
        frame, callers = sys._getframe(1), []
        while frame is not None:
            if "importlib" not in (file := frame.f_code.co_filename):
                callers.append(f"{'/'.join(file.split('/')[-3:])}:{frame.f_lineno}")
            frame = frame.f_back  # type: ignore[assignment]
        print("imported", name, *callers[:4])
        return None

    def step(self) -> None:
        """Every connection ends, and no other can be opened for a while, if that is the way."""
        now, most = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._way == "troubled" and now > STANDARD:
            resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD, most))
            restore = (resource.RLIMIT_NOFILE, limits)
            threading.Timer(FAMINE, resource.setrlimit, restore).start()
        tell("cut")


def tell(order: str) -> None:
    """Let the server's process do something."""
    print(order, flush=True)
    sys.stdin.readline()


async def read(source: Any, count: int) -> list[Any]:
    """The next records of a Reader or Consumer."""
    found = []
    async for record in source:
        found.append(record)
        if len(found) == count:
            break
    assert len(found) == count
    return found


async def begin_again(consumer: Any) -> None:
    """Read from the beginning once the member has its partition, which it may lose for a while."""
    while True:
        with suppress(ProducerError):
            return await consumer.seek(PARTITION, 0)  # type: ignore[no-any-return]
        await asyncio.sleep(0.05)


# --- producers ---------------------------------------------------------------------------------


async def produce(servers: str, watch: Watch, **options: Any) -> None:
    """All that an idempotent producer does, and what fails."""
    from aioproducer import Producer

    async with Producer(bootstrap_servers=servers, **SETTINGS, **options) as producer:
        watch.begin()
        await producer.send(TOPIC, b"first", key=b"k", headers={"a": b"1"})
        watch.step()
        await producer.send(TOPIC, "second")
        watch.step()
        report = await producer.send_many(TOPIC, [b"value"] * 2_000)
        assert report.delivered == 2_000, report
        watch.step()
        records = [ProducerRecord(TOPIC, b"v" * 100, partition=1) for _ in range(500)]
        assert (await producer.send_many(TOPIC, records)).delivered == 500
        watch.step()
        await producer.check(topics=[TOPIC])
        await producer.partitions_for(TOPIC)
        await producer.partition_infos_for(TOPIC)
        for code in (6, 7, 10, 17, 45, 59, 2, 87):
            tell(f"fail 0 {code}")
            futures = [producer.send(TOPIC, b"v" * 1000, partition=0) for _ in range(20)]
            await asyncio.gather(*futures, return_exceptions=True)
        watch.step()
        with suppress(RecordTooLargeError):
            producer.send(TOPIC, b"v" * 2_000_000)
        tell("fail 0 87")
        producer.send(TOPIC, b"nobody looks at it")
        await producer.flush()
        repr(producer.health())
        repr(producer.metrics())
        repr(producer.latencies())
        watch.step()
        producer.send(TOPIC, b"last")


async def transact(servers: str, watch: Watch) -> None:
    """Transactions that commit, abort and fail, and offsets in them."""
    from aioproducer import Producer

    options: dict[str, Any] = {"transactional_id": "t", **SETTINGS}
    async with Producer(bootstrap_servers=servers, **options) as producer:
        watch.begin()
        for _ in range(2):
            async with producer.transaction():
                producer.send(TOPIC, b"value")
                watch.step()
        async with producer.transaction():
            await producer.send_many(TOPIC, [b"value"] * 100)
            await producer.send_offsets_to_transaction(
                {PARTITION: 1}, ConsumerGroupMetadata("group")
            )
            watch.step()
        await producer.committed_offsets("group", [PARTITION])
        try:
            async with producer.transaction():
                producer.send(TOPIC, b"value")
                watch.step()
                raise ValueError
        except ValueError:
            pass
        tell("fail 0 87")
        try:
            async with producer.transaction():
                producer.send(TOPIC, b"value")
        except ProducerError:
            pass
        await producer.check(topics=[TOPIC], transactional_id="t")
        for code in (14, 15, 16, 51, 47):
            tell(f"fail 26 {code}")
            try:
                async with producer.transaction():
                    producer.send(TOPIC, b"value")
            except ProducerError:
                pass
        repr(producer.metrics())
        repr(producer.health())


async def keep_failed(servers: str, watch: Watch) -> None:
    """A dead letter topic, and a file after it."""
    from aioproducer import Producer
    from aioproducer.failed_records import DeadLetterFile, DeadLetterTopic

    file = DeadLetterFile(os.devnull, fsync=False)
    kept = DeadLetterTopic("dead", compression_type="zstd", fallback=file)
    async with Producer(bootstrap_servers=servers, on_failed=kept, **SETTINGS) as producer:
        watch.begin()
        for _ in range(2):
            tell("fail 0 87")
            await asyncio.gather(producer.send(TOPIC, b"value"), return_exceptions=True)
            watch.step()
        tell("fail 0 87")
        producer.send(TOPIC, b"value")
        await producer.flush()
        tell("fail 0 87")


async def send_arrow(servers: str, watch: Watch) -> None:
    """Columns in bulk."""
    import pyarrow

    from aioproducer import Producer

    async with Producer(bootstrap_servers=servers, **SETTINGS) as producer:
        table = pyarrow.table({"key": [b"k"] * 1000, "value": [b"v"] * 1000})
        watch.begin()
        watch.step()
        assert (await producer.send_many(TOPIC, table)).delivered == 1_000


def produce_blocking(servers: str, watch: Watch) -> None:
    """The blocking shell."""
    from aioproducer.sync import Producer

    with Producer(bootstrap_servers=servers, **SETTINGS) as producer:
        watch.begin()
        producer.send(TOPIC, b"first", key=b"k").result()
        watch.step()
        assert producer.send_many(TOPIC, [b"value"] * 2_000).delivered == 2_000
        watch.step()
        assert producer.send_many(TOPIC, iter([b"value"] * 2_000)).delivered == 2_000
        producer.check(topics=[TOPIC])
        tell("fail 0 87")
        with suppress(KafkaError):
            producer.send(TOPIC, b"value").result()
        watch.step()
        producer.flush()
        repr(producer.metrics())
        repr(producer.health())


def transact_blocking(servers: str, watch: Watch) -> None:
    """Transactions of the blocking shell."""
    from aioproducer.sync import Producer

    options: dict[str, Any] = {"transactional_id": "sync", **SETTINGS}
    with Producer(bootstrap_servers=servers, **options) as producer:
        watch.begin()
        with producer.transaction():
            producer.send(TOPIC, b"value")
            watch.step()
        with producer.transaction():
            producer.send_many(TOPIC, [b"value"] * 100)
            producer.send_offsets_to_transaction({PARTITION: 1}, "group")


async def report(servers: str, watch: Watch) -> None:
    """Metrics that brokers ask for."""
    from aioproducer import Producer

    async with Producer(bootstrap_servers=servers, **SETTINGS) as producer:
        watch.begin()
        await producer.client_instance_id()
        await producer.send(TOPIC, b"value")
        await asyncio.get_running_loop().run_in_executor(None, tell, "pushed")
        watch.step()
        await producer.send(TOPIC, b"value")


async def log_in(servers: str, watch: Watch) -> None:
    """TLS, and SCRAM again and again; the password is wrong at last."""
    from aioproducer import Producer

    options: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "alice",
        "sasl_password": "secret",
        "ssl_truststore_location": os.environ["TRUSTSTORE"],
        "ssl_truststore_type": "PEM",
        **SETTINGS,
    }
    async with Producer(bootstrap_servers=servers, **options) as producer:
        watch.begin()
        for _ in range(5):
            await producer.send(TOPIC, b"value")
            watch.step()
            await asyncio.sleep(0.3)
        tell("fail 36 58")
        watch.step()
        with suppress(ProducerError):
            await producer.send(TOPIC, b"value")


async def get_tokens(servers: str, watch: Watch) -> None:
    """Tokens of an endpoint, and a broker that does not take them."""
    import json
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from aioproducer import Producer

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            token = {"access_token": "t", "token_type": "bearer", "expires_in": 3600}
            self.wfile.write(json.dumps(token).encode())

        def log_message(self, *_: object) -> None:
            pass

    endpoint = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": f"http://127.0.0.1:{endpoint.server_port}/token",
        "sasl_oauthbearer_client_credentials_client_id": "id",
        "sasl_oauthbearer_client_credentials_client_secret": "secret",
        **SETTINGS,
    }
    async with Producer(bootstrap_servers=servers, **options) as producer:
        watch.begin()
        with suppress(ProducerError):
            await producer.send(TOPIC, b"value")
    endpoint.shutdown()


# --- readers -----------------------------------------------------------------------------------


async def fill(servers: str, codecs: Iterable[str], count: int = 20) -> None:
    """Records to read."""
    from aioproducer import Producer

    for codec in codecs:
        options: dict[str, Any] = {"bootstrap_servers": servers, "compression_type": codec}
        async with Producer(**options) as producer:
            await producer.send_many(TOPIC, [b"value" * 100] * count, partition=0)


def filled(servers: str, codecs: Iterable[str]) -> None:
    """Records that another process writes."""
    import subprocess

    program = [sys.executable, __file__, "fill", "quiet", servers, ",".join(codecs)]
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)


async def read_all(servers: str, watch: Watch) -> None:
    """A Reader, and every codec."""
    from aioproducer.reader import Reader

    filled(servers, CODECS)
    async with Reader({PARTITION: "beginning"}, bootstrap_servers=servers, **SETTINGS) as reader:
        watch.begin()
        await read(reader, 20)
        watch.step()
        await read(reader, 80)
        watch.step()
        await reader.seek(PARTITION, 5)
        await read(reader, 10)
        await reader.seek(PARTITION, datetime.now(UTC))
        await reader.end_offsets()
        await reader.beginning_offsets()
        await reader.seek(PARTITION, "beginning")
        watch.step()
        async for batch in reader.batches():
            assert len(batch)
            break
        for code in (6, 74, 1, 75, 100):
            tell(f"fail 1 {code}")
            await reader.seek(PARTITION, 5)
            await read(reader, 10)


async def consume(servers: str, watch: Watch, **options: Any) -> None:
    """A member of a group: rebalances, commits, an outage, transactions of another producer."""
    from aioproducer import Producer
    from aioproducer.consumer import Consumer

    filled(servers, CODECS)
    given = {"bootstrap_servers": servers, "group_id": "group", **SETTINGS, **options}
    async with (
        Producer(bootstrap_servers=servers, transactional_id="c", **SETTINGS) as producer,
        Consumer(TOPIC, auto_offset_reset="earliest", **given) as consumer,
    ):
        watch.begin()
        await read(consumer, 20)
        watch.step()
        await read(consumer, 20)
        await consumer.commit()
        watch.step()
        await consumer.commit()
        await consumer.committed()
        await consumer.lag()
        consumer.pause(PARTITION)
        consumer.resume(PARTITION)
        await begin_again(consumer)
        await read(consumer, 20)
        watch.step()
        async for _ in consumer.batches():
            break
        async for _ in consumer.lists():
            break
        for api, code in ((12, 27), (12, 25), (8, 14), (8, 16), (68, 110), (68, 113), (1, 6)):
            tell(f"fail {api} {code}")
        await asyncio.sleep(0.5)
        await begin_again(consumer)
        await read(consumer, 20)
        watch.step()
        async with Consumer(TOPIC, **given) as other:
            await asyncio.sleep(1.0)
            repr(other.health())
        seen = 0

        async def handle(_: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == 20:
                consumer.finish()

        await begin_again(consumer)
        await consumer.run(handle)
        watch.step()
        repr(consumer.metrics())
        repr(consumer.health())
        del producer


async def consume_and_produce(servers: str, watch: Watch) -> None:
    """Read, process and write in transactions."""
    from aioproducer import Producer
    from aioproducer.consumer import Consumer

    filled(servers, CODECS)
    given: dict[str, Any] = {"bootstrap_servers": servers, **SETTINGS}
    async with (
        Producer(transactional_id="c", **given) as producer,
        Consumer(TOPIC, group_id="g", auto_offset_reset="earliest", **given) as consumer,
    ):
        watch.begin()
        done = 0
        async for work in consumer.transactions(producer, max_records=20):
            async with work:
                for record in work:
                    producer.send("copy", record.value)
                    done += 1
                watch.step()
            if done >= 100:
                break


async def administer(servers: str, watch: Watch) -> None:
    """Every call of an Admin."""
    from aioproducer.admin import Admin

    await fill(servers, ["none"])
    async with Admin(bootstrap_servers=servers, **SETTINGS) as admin:
        watch.begin()
        await admin.create_topic("new", 2, 1)
        watch.step()
        await admin.wait_for_leaders("new")
        await admin.add_partitions("new", 3)
        await admin.list_topics()
        await admin.describe_topics(configs=True)
        watch.step()
        await admin.describe_cluster(versions=True)
        await admin.describe_configs("new")
        await admin.alter_configs({"new": {"retention.ms": "1000"}})
        watch.step()
        await admin.delete_records({PARTITION: 5})
        await admin.list_offsets({PARTITION: "end"})
        await admin.list_offsets({PARTITION: datetime.now(UTC)})
        await admin.alter_group_offsets("group", {PARTITION: 1})
        await admin.list_groups()
        await admin.describe_groups("group")
        await admin.group_lag("group")
        await admin.group_offsets("group")
        watch.step()
        for call in (
            admin.delete_group_offsets("group", [PARTITION]),
            admin.delete_groups("group"),
            admin.delete_topics("new"),
            admin.delete_topics("unknown"),
        ):
            with suppress(ProducerError):
                await call


# --- other clients' interfaces -----------------------------------------------------------------


async def as_aiokafka(servers: str, watch: Watch) -> None:
    """The interface of aiokafka."""
    from aioproducer.compat.aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=servers, retry_backoff_ms=20) as producer:
        watch.begin()
        await producer.send_and_wait(TOPIC, b"value")
        watch.step()
        batch = producer.create_batch()
        batch.append(key=None, value=b"value", timestamp=None)
        await (await producer.send_batch(batch, TOPIC, partition=0))
        tell("fail 0 87")
        try:
            await producer.send_and_wait(TOPIC, b"value")
        except Exception as error:
            repr(error)
        await producer.partitions_for(TOPIC)
        await producer.flush()


def as_confluent(servers: str, watch: Watch) -> None:
    """The interface of confluent-kafka."""
    from aioproducer.compat.confluent import KafkaException, Producer

    producer = Producer(
        {"bootstrap.servers": servers, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    )
    producer.produce(TOPIC, b"value", on_delivery=lambda error, message: None)
    producer.flush()
    watch.begin()
    watch.step()
    producer.produce(TOPIC, b"value", on_delivery=lambda error, message: message.offset())
    producer.poll(0)
    producer.flush()
    tell("fail 0 87")
    producer.produce(TOPIC, b"value", on_delivery=lambda error, message: str(error))
    producer.flush()
    producer.produce_batch(TOPIC, [{"value": b"value"}] * 100)
    producer.flush()
    producer.list_topics(timeout=5)
    try:
        producer.init_transactions()
    except KafkaException as error:
        repr(error)
    producer.close()


Life = Callable[[str, Watch], Any]


def secured(life: Callable[..., Any], **options: Any) -> Life:
    """A life with more options."""
    return lambda servers, watch: life(servers, watch, **options)


LIVES: Final[dict[str, Life]] = {
    "produce": produce,
    "produce lz4": secured(produce, compression_type="lz4"),
    "produce zstd": secured(produce, compression_type="zstd"),
    "produce without acks": secured(produce, acks=0),
    "transact": transact,
    "keep failed": keep_failed,
    "send arrow": send_arrow,
    "produce blocking": produce_blocking,
    "transact blocking": transact_blocking,
    "read": read_all,
    "consume classic": secured(consume, group_protocol="classic"),
    "consume": secured(consume, group_protocol="consumer"),
    "consume and produce": consume_and_produce,
    "administer": administer,
    "as aiokafka": as_aiokafka,
    "as confluent": as_confluent,
    "report": report,
    "log in": log_in,
    "get tokens": get_tokens,
}


def main(name: str, way: str, servers: str, folder: str) -> None:
    """Live a life."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    if name == "fill":
        asyncio.run(fill(servers, folder.split(",")))
        return
    watch = Watch(way, folder)
    ended: Coroutine[Any, Any, None] | None = LIVES[name](servers, watch)
    try:
        if ended is not None:
            asyncio.run(ended)
    except BaseException:
        if os.path.exists(f"{folder}-gone"):  # for the traceback
            os.rename(f"{folder}-gone", folder)
        sys.meta_path.remove(watch)
        traceback.print_exc()
        os._exit(1)
    print("lived", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
