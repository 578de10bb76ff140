"""``KafkaHandler``: log records of an application, read back; and everything that may go wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.config
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aioproducer import Producer, ProducerRecord, sync
from aioproducer.engine.interceptors import ProducerInterceptor
from aioproducer.errors import ConfigError, InvalidTopicError
from aioproducer.observability.log_handler import KafkaHandler
from aioproducer.observability.otel import instrument
from aioproducer.testing.mock_cluster import MockCluster
from tests.mock_cluster.started import PATIENCE
from tests.support.read_back import ReadRecord, read_topic

NOBODY = "127.0.0.1:1"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, topics={"logs": 1}) as cluster:
        yield cluster


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.orders")
    logger.setLevel(logging.DEBUG)
    yield logger
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()


def sent(cluster: MockCluster, count: int) -> list[ReadRecord]:
    records = read_topic(cluster, "logs")
    assert len(records) == count
    return records


def told(cluster: MockCluster, count: int) -> list[dict[str, Any]]:
    return [json.loads(each.value or b"") for each in sent(cluster, count)]


def test_records_with_their_fields(cluster: MockCluster, logger: logging.Logger) -> None:
    handler = KafkaHandler(
        "logs",
        bootstrap_servers=cluster.bootstrap_servers,
        key="name",
        headers={"service": "shop"},
    )
    logger.addHandler(handler)
    logger.info("order %d was paid", 7, extra={"order": 7})
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("no delivery")
    handler.close()
    assert handler.dropped == 0
    records = sent(cluster, 2)
    assert {each.key for each in records} == {b"shop.orders"}
    assert {tuple(each.headers or ()) for each in records} == {(("service", b"shop"),)}
    first, second = (json.loads(each.value or b"") for each in records)
    assert (first["message"], first["order"], first["level"]) == ("order 7 was paid", 7, "INFO")
    assert "ValueError: wrong" in second["exception"]
    assert abs(records[0].timestamp_ms / 1000 - time.time()) < 60


def test_a_formatter_and_functions(cluster: MockCluster, logger: logging.Logger) -> None:
    handler = KafkaHandler(
        "logs",
        bootstrap_servers=cluster.bootstrap_servers,
        key=lambda record: record.levelname,
        headers=lambda record: [("line", b"%d" % record.lineno)],
    )
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.warning("späť")
    handler.flush()
    (record,) = sent(cluster, 1)
    assert (record.value, record.key) == ("WARNING späť".encode(), b"WARNING")


def test_several_threads(cluster: MockCluster, logger: logging.Logger) -> None:
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers, capacity=10_000)
    logger.addHandler(handler)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: logger.info("%d", number), range(2_000)))
    handler.flush()
    assert sorted(int(each["message"]) for each in told(cluster, 2_000)) == list(range(2_000))
    assert handler.dropped == 0


async def test_on_the_event_loop_with_a_producer_of_the_application(
    cluster: MockCluster, logger: logging.Logger
) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        handler = KafkaHandler("logs", producer)
        logger.addHandler(handler)
        for number in range(1_200):
            logger.info("%d", number)
        handler.flush()  # does not wait: this thread has to send
        await asyncio.to_thread(logger.info, "from a thread")
        await asyncio.to_thread(handler.flush)
        logger.removeHandler(handler)
        handler.close()
        assert (await producer.send("logs", b"{}")).offset == 1_201, "it stays open"
    assert handler.dropped == 0
    messages = [each.get("message") for each in told(cluster, 1_202)]
    assert messages == [*map(str, range(1_200)), "from a thread", None]


async def test_a_producer_without_room_is_waited_for(
    cluster: MockCluster, logger: logging.Logger
) -> None:
    options: dict[str, Any] = {"buffer_memory": 20_000, "max_request_size": 5_000}
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
        handler = KafkaHandler("logs", producer, flush_timeout=PATIENCE)
        logger.addHandler(handler)
        for number in range(2_000):
            logger.info("%d", number)
        await asyncio.to_thread(handler.flush)
        assert handler.dropped == 0
    assert [int(each["message"]) for each in told(cluster, 2_000)] == list(range(2_000))


def test_with_a_blocking_producer_of_the_application(
    cluster: MockCluster, logger: logging.Logger
) -> None:
    with sync.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        handler = KafkaHandler("logs", producer)
        logger.addHandler(handler)
        logger.info("hello")
        handler.close()
        assert producer.send("logs", b"{}").result(PATIENCE).offset == 1
    assert told(cluster, 2)[0]["message"] == "hello"


async def test_records_of_concurrent_requests_have_no_context_of_one_of_them(
    cluster: MockCluster, logger: logging.Logger
) -> None:
    request: ContextVar[str] = ContextVar("request")
    seen: list[str | None] = []

    class Seen(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(request.get(None))
            return record

        def on_acknowledgement(self, *_: object) -> None:
            return

        def close(self) -> None:
            return

    async def handle(name: str) -> None:
        request.set(name)
        logger.info(name)

    servers = cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers, interceptor_classes=[Seen()]) as producer:
        logger.addHandler(KafkaHandler("logs", producer))
        await asyncio.gather(*(handle(name) for name in "ab"))
        await asyncio.wait_for(asyncio.to_thread(logger.handlers[0].flush), PATIENCE)
    assert seen == [None, None]


@pytest.mark.parametrize("blocking", [False, True])
async def test_records_are_not_traced(
    blocking: bool, cluster: MockCluster, logger: logging.Logger
) -> None:
    servers, exported, provider = (
        cluster.bootstrap_servers,
        InMemorySpanExporter(),
        TracerProvider(),
    )
    provider.add_span_processor(SimpleSpanProcessor(exported))
    async with AsyncExitStack() as stack:
        producer: Producer | sync.Producer
        if blocking:
            producer = stack.enter_context(sync.Producer(bootstrap_servers=servers))
        else:
            producer = await stack.enter_async_context(Producer(bootstrap_servers=servers))
        instrument(producer, tracer_provider=provider)
        logger.addHandler(KafkaHandler("logs", producer))
        with provider.get_tracer("shop").start_as_current_span("request"):
            logger.info("paid")
        await asyncio.wait_for(asyncio.to_thread(logger.handlers[0].flush), PATIENCE)
    assert [each.name for each in exported.get_finished_spans()] == ["request"]
    assert not sent(cluster, 1)[0].headers


def test_the_root_logger_at_debug_sends_nothing_of_its_own(cluster: MockCluster) -> None:
    """Neither lines of this library, nor lines that asyncio writes in the producer's thread."""
    root = logging.getLogger()
    level = root.level
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        for number in range(100):
            logging.getLogger("shop").debug("%d", number)
        handler.flush()
        for name in ("aioproducer.network", "aioproducer"):
            logging.getLogger(name).error("of this library")
        logging.getLogger("aioproducers").error("of another one")
        logging.getLogger("shop").debug("last")
        handler.flush()
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()
    loggers = [each["logger"] for each in told(cluster, 102)]
    assert loggers == [*["shop"] * 100, "aioproducers", "shop"]
    assert handler.dropped == 0


class LoggingFormatter(logging.Formatter):
    """A formatter that logs."""

    def format(self, record: logging.LogRecord) -> str:
        logging.getLogger("shop.orders").error("while formatting")
        return super().format(record)


def test_what_is_logged_while_formatting_is_not_sent(
    cluster: MockCluster, logger: logging.Logger
) -> None:
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers)
    handler.setFormatter(LoggingFormatter())
    logger.addHandler(handler)
    logger.info("once")
    handler.close()
    assert [each.value for each in sent(cluster, 1)] == [b"once"]


def test_a_formatter_that_fails(
    cluster: MockCluster, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers)
    logger.addHandler(handler)
    logger.info("%d", "no number")
    logger.info("next")
    handler.close()
    assert [each["message"] for each in told(cluster, 1)] == ["next"]


def test_a_broker_that_is_down_holds_up_nobody(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = KafkaHandler(
        "logs",
        bootstrap_servers=NOBODY,
        capacity=100,
        flush_timeout=0.2,
        max_block_ms=50,
        buffer_memory=20_000,
        max_request_size=5_000,
    )
    logger.addHandler(handler)
    longest = 0.0
    for number in range(3_000):
        began = time.perf_counter()
        logger.info("%d %s", number, "x" * 100)
        longest = max(longest, time.perf_counter() - began)
    assert longest < 2.0
    began = time.perf_counter()
    handler.close()
    assert time.perf_counter() - began < 15.0
    assert handler.dropped == 3_000
    errors = capsys.readouterr().err.splitlines()
    ours = [each for each in errors if "not sent to topic 'logs'" in each]
    assert 1 <= len(ours) <= 2, "the first drop, and the rest at the end"


def test_a_closed_handler_drops(cluster: MockCluster, logger: logging.Logger) -> None:
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers)
    logger.addHandler(handler)
    handler.close()
    logger.info("late")
    assert handler.dropped == 1
    handler.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"capacity": 0}, "capacity=0"),
        ({"drop": "some"}, "neither 'newest' nor 'oldest'"),
        ({"bootstrap_server": NOBODY}, "bootstrap_servers"),
        ({"capacity": "5"}, "capacity='5'"),
        ({"flush_timeout": "5"}, "number of seconds"),
        ({"flush_timeout": None}, "flush_timeout"),
        ({"flush_timeout": -1.0}, "number of seconds"),
        ({"key": 5}, "key=5"),
        ({"headers": [("a", b"b")]}, "headers="),
        ({"headers": {"a": 5}}, "headers="),
        ({"producer": "localhost:9092"}, "not a producer"),
    ],
)
def test_wrong_options_are_told_at_once(given: dict[str, Any], said: str) -> None:
    known = len(logging._handlerList)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=said) as caught:
        KafkaHandler("logs", **given)
    assert caught.value.__traceback__ is not None, "it is alive"
    assert len(logging._handlerList) == known, "logging does not flush it"  # type: ignore[attr-defined]


def test_a_topic_that_no_broker_takes_is_told_at_once() -> None:
    with pytest.raises(InvalidTopicError):
        KafkaHandler("app logs", bootstrap_servers=NOBODY)


def test_a_producer_and_options_of_another_one() -> None:
    with pytest.raises(ConfigError, match="linger_ms"):
        KafkaHandler("logs", sync.Producer(bootstrap_servers=NOBODY), linger_ms=5)


def test_by_dictionary(cluster: MockCluster, logger: logging.Logger) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"short": {"format": "%(message)s"}},
            "handlers": {
                "kafka": {
                    "class": "aioproducer.observability.log_handler.KafkaHandler",
                    "topic": "logs",
                    "bootstrap_servers": [cluster.bootstrap_servers],
                    "level": "INFO",
                    "formatter": "short",
                    "drop": "oldest",
                    "compression_type": "zstd",
                }
            },
            "loggers": {"shop.orders": {"handlers": ["kafka"], "level": "DEBUG"}},
        }
    )
    logger.debug("not this")
    logger.info("this")
    logger.handlers[0].close()
    assert [each.value for each in sent(cluster, 1)] == [b"this"]


AT_EXIT = """
import logging
from aioproducer.observability.log_handler import KafkaHandler
handler = KafkaHandler("logs", bootstrap_servers={servers!r})
logging.basicConfig(level=logging.DEBUG, handlers=[handler])
for number in range(300):
    logging.getLogger("shop").info("%d", number)
"""
ASYNC_AT_EXIT = """
import asyncio, logging
from aioproducer import Producer
from aioproducer.observability.log_handler import KafkaHandler
async def main():
    async with Producer(bootstrap_servers={servers!r}) as producer:
        logging.basicConfig(level=logging.DEBUG, handlers=[KafkaHandler("logs", producer)])
        for number in range(300):
            logging.getLogger("shop").info("%d", number)
        await asyncio.sleep(0)
asyncio.run(main())
"""
FORK = """
import logging, os
from aioproducer.observability.log_handler import KafkaHandler
handler = KafkaHandler("logs", bootstrap_servers={servers!r})
logging.basicConfig(level=logging.DEBUG, handlers=[handler])
logging.getLogger("shop").info("before")
child = os.fork()
for number in range(100):
    logging.getLogger("shop").info("%s %d", "parent" if child else "child", number)
if child:
    os.waitpid(child, 0)
"""
LOCKS_FOR_FORKS = """
import logging, os, sys
from aioproducer.observability.log_handler import KafkaHandler
register = os.register_at_fork
def watched(**hooks):
    if "before" in hooks:
        print(hooks["before"], file=sys.stderr)
    register(**hooks)
os.register_at_fork = watched
handler = KafkaHandler("logs", bootstrap_servers={servers!r})
logging.basicConfig(level=logging.INFO, handlers=[handler])
logging.getLogger("shop").info("a record")
logging.shutdown()
"""
CHILDREN = """
import logging, multiprocessing
from aioproducer.observability.log_handler import KafkaHandler
handler = KafkaHandler("logs", bootstrap_servers={servers!r})
logging.basicConfig(level=logging.INFO, handlers=[handler])
child = multiprocessing.get_context("fork").Process(
    target=logging.getLogger("shop").info, args=("child",)
)
child.start()
child.join()
"""


def run(code: str, cluster: MockCluster) -> str:
    quiet = "ignore:This process:DeprecationWarning"  # of forks, since Python 3.12
    ended = subprocess.run(
        [sys.executable, "-W", quiet, "-c", code.format(servers=cluster.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env={**os.environ, "PYTHONDEVMODE": ""},
    )
    return ended.stderr


@pytest.mark.parametrize("code", [AT_EXIT, ASYNC_AT_EXIT], ids=["own", "of the application"])
def test_the_interpreters_exit_loses_nothing(code: str, cluster: MockCluster) -> None:
    assert run(code, cluster) == ""
    assert [int(each["message"]) for each in told(cluster, 300)] == list(range(300))


def test_a_forked_child_of_multiprocessing_loses_nothing(cluster: MockCluster) -> None:
    assert run(CHILDREN, cluster) == ""
    assert [each["message"] for each in told(cluster, 1)] == ["child"]


def test_a_fork_sends_its_own_records(cluster: MockCluster) -> None:
    assert run(FORK, cluster) == ""
    messages = [each["message"] for each in told(cluster, 201)]
    assert messages.count("before") == 1
    for who in ("parent", "child"):
        assert [each for each in messages if each.startswith(who)] == [
            f"{who} {number}" for number in range(100)
        ]


def test_no_lock_for_forks_comes_with_a_started_client(cluster: MockCluster) -> None:
    """Python would release it after a fork that is under way, though nobody has acquired it."""
    assert run(LOCKS_FOR_FORKS, cluster) == ""
    assert len(told(cluster, 1)) == 1


def test_the_exit_with_a_broker_that_is_down_is_bounded() -> None:
    code = AT_EXIT.replace("servers!r}", "servers!r}, flush_timeout=0.5")
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", code.format(servers=NOBODY)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert time.monotonic() - began < 30
    ours = [each for each in ended.stderr.splitlines() if "not sent to topic" in each]
    assert len(ours) == 1, ended.stderr


def blocked_for(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def test_lines_of_the_producer_do_not_wait_for_the_closing_handler(cluster: MockCluster) -> None:
    """``logging.shutdown()`` holds the handler's lock while it waits for the producer's threads."""
    root = logging.getLogger()
    level = root.level
    handler = KafkaHandler("logs", bootstrap_servers=cluster.bootstrap_servers, flush_timeout=20.0)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        logging.getLogger("shop").info("one")
        handler.acquire()
        try:
            assert blocked_for(handler.close) < 10.0
        finally:
            handler.release()
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
    assert handler.dropped == 0
    assert not [each for each in threading.enumerate() if each.name == "aioproducer-log-handler"]
