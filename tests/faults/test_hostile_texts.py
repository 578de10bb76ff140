"""A hostile peer whose every text gives orders to a terminal: no output passes them on.

The peer is the model of Kafka on a socket. Each text of its responses that need not be what the
client asked for is replaced, and each error has a message.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import re
import sys
import traceback
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from aioproducer import Producer
from aioproducer.admin import Admin, NewTopic
from aioproducer.cli.app import run
from aioproducer.consumer import Consumer
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProducerError
from aioproducer.errors.broker import ErrorCode
from aioproducer.observability.live.rendering import line, picture
from aioproducer.observability.live.snapshots import Snapshot, figures
from aioproducer.observability.series import Sample
from aioproducer.reader import Reader
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel, model
from tests.support.served_kafka import ServedKafka

BAD = "x\x1b[2J\x1b]0;owned\x07\b\r\nFORGED\x9b31m\u202e\u2066\u2028\x7f"
"""It clears the screen, names the window, begins a line, and turns text around."""
ORDERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
KEPT = {
    "host",
    "name",
    "resource_name",
    "topic",
    "topic_name",
    "group_id",
    "key",
    "protocol_type",
    "protocol_name",
}
"""Texts that have to be those of the request, or to lead to the peer."""
NAMED: list[bool] = []
"""Not empty: the peer names a further broker, which a command may wait for."""
MEMBERS = {Api.JOIN_GROUP, Api.SYNC_GROUP, Api.HEARTBEAT, Api.CONSUMER_GROUP_HEARTBEAT}
"""Their responses have the id by which the member goes on."""
NOT_KEPT = {
    (Api.LIST_GROUPS, "group_id"),
    (Api.LIST_GROUPS, "protocol_type"),
    (Api.API_VERSIONS, "name"),
    (Api.DESCRIBE_CONFIGS, "name"),
}


def hostile(api: int, values: Mapping[str, Any], *, messages: bool) -> dict[str, Any]:
    """The fields of a response, with hostile texts."""

    def changed(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            fields = {each: changed(each, part) for each, part in value.items()}
            if messages and "error_code" in value:
                fields["error_message"] = BAD
            return fields
        if isinstance(value, list | tuple):
            return [changed(name, each) for each in value]
        if name in ("rack", "error_message"):
            return BAD
        is_kept = api in MEMBERS or (name in KEPT and (api, name) not in NOT_KEPT)
        return BAD if isinstance(value, str) and not is_kept else value

    found: dict[str, Any] = changed("", values)
    if api == Api.METADATA and "brokers" in found:
        if NAMED:
            found["brokers"].append({"node_id": 66, "host": BAD, "port": 9092, "rack": BAD})
        another = {"name": BAD, "topic_id": UUID(int=66)}
        found["topics"] += [{**each, **another} for each in found["topics"][-1:]]
    return found


class Peer:
    """The hostile peer, and a member of a group there, in a thread: commands want the main one."""

    model: KafkaModel
    bootstrap_servers: str

    def __init__(self) -> None:
        self._ready, self._failure = Event(), None
        self._thread = Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        options = ClusterOptions(group_initial_rebalance_delay_ms=0)
        try:
            async with ServedKafka(options) as served:
                self.model, self.bootstrap_servers = served.model, served.bootstrap_servers
                self.model.create_topic("orders", 2)
                async with self._joined():
                    self._ready.set()
                    await self._end.wait()
        finally:
            self._ready.set()

    @asynccontextmanager
    async def _joined(self) -> AsyncIterator[None]:
        options = {"bootstrap_servers": self.bootstrap_servers, **QUICK}
        async with Producer(**options) as producer:
            await producer.send("orders", BAD, key=BAD, headers={BAD: BAD.encode()}, partition=0)
        del options["delivery_timeout_ms"]
        options["group_protocol"] = "classic"  # chosen, it would ask the peer for a strategy
        async with Consumer(
            "orders", group_id="billing", auto_offset_reset="earliest", **options
        ) as consumer:
            async with asyncio.timeout(PATIENCE):
                await anext(aiter(consumer))
            await consumer.commit()
            yield

    def __enter__(self) -> Peer:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)

    def fail_next(self, api: int, code: int) -> None:
        """Refuse the next request of a kind; the text is hostile."""
        self._loop.call_soon_threadsafe(self.model.fail_next, api, code)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """The hostile peer."""
    honest: Callable[..., bytes] = vars(model)["write_response"]

    def write(api: int, version: int, number: int, values: Any, **more: Any) -> bytes:
        for messages in (True, False):
            with suppress(Exception):
                return honest(api, version, number, hostile(api, values, messages=messages), **more)
        return honest(api, version, number, values, **more)

    monkeypatch.setattr(model, "write_response", write)
    with Peer() as served:
        yield served


class Output:
    """A terminal or a pipe, as a command writes to it."""

    def __init__(self, *, terminal: bool) -> None:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        if terminal:
            tty.setraw(theirs)
        self.stream = open(theirs, "w", encoding="utf-8")  # noqa: SIM115
        self._ours = ours
        self._bytes = b""
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError), open(self._ours, "rb", buffering=0) as file:
            while data := file.read(65536):
                self._bytes += data

    def ended(self) -> bytes:
        """Everything that was written."""
        self.stream.close()
        self._reader.join()
        return self._bytes


def said(words: list[str], *, terminal: bool) -> tuple[bytes, bytes]:
    """What a command writes."""
    logger = logging.getLogger("aioproducer")
    level = logger.level
    out, err = Output(terminal=terminal), Output(terminal=terminal)
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = open("lines"), out.stream, err.stream  # noqa: SIM115
    try:
        run(words)
    finally:
        sys.stdin.close()
        sys.stdin, sys.stdout, sys.stderr = before
        logger.handlers[:], logger.propagate = [], True
        logger.setLevel(level)
        told = out.ended(), err.ended()
    return told


PATIENCE = 20.0
QUICK: dict[str, Any] = {
    "metadata_cluster_check_enable": False,  # it asks for the id that the peer has told
    "delivery_timeout_ms": 4_000,
    "request_timeout_ms": 3_000,
    "max_block_ms": 4_000,
}
OPTIONS = [word for name, value in QUICK.items() for word in ("--property", f"{name}={value}")]
GROUP = (Api.FIND_COORDINATOR, Api.OFFSET_FETCH, Api.DESCRIBE_GROUPS, Api.CONSUMER_GROUP_DESCRIBE)
COMMANDS: dict[str, tuple[int, ...]] = {
    "check orders": (Api.METADATA,),
    "cluster": (Api.METADATA,),
    "cluster --versions --timeout 1": (),
    "topics list": (Api.METADATA,),
    "topics describe orders": (Api.METADATA, Api.DESCRIBE_CONFIGS),
    "topics create orders": (Api.CREATE_TOPICS,),
    "topics add-partitions orders --partitions 1": (Api.CREATE_PARTITIONS,),
    "topics delete orders": (),
    "topics delete nowhere --yes": (Api.DELETE_TOPICS,),
    "groups list": (Api.LIST_GROUPS,),
    "groups describe billing": GROUP,
    "groups describe nobody": (Api.LIST_OFFSETS,),
    "groups reset-offsets billing --topic orders --to-beginning": GROUP,
    "groups delete billing": (),
    "groups delete billing --yes": (Api.FIND_COORDINATOR,),
    "produce orders": (Api.METADATA, Api.PRODUCE, Api.INIT_PRODUCER_ID),
    "perf orders --num-records 5 --record-size 10": (Api.PRODUCE,),
    "tail orders --from beginning --until end": (Api.METADATA, Api.FETCH, Api.LIST_OFFSETS),
    "tail orders --from beginning --until end --headers": (),
    "tail orders --from beginning --until end -f %t:%p:%o:%k:%h:%s\\n": (),
    "tail orders --group others -c 1 --property auto.offset.reset=earliest": (
        Api.FIND_COORDINATOR,
        Api.JOIN_GROUP,
        Api.CONSUMER_GROUP_HEARTBEAT,
    ),
}
"""The commands that ask brokers, with the requests that fail, each once."""
CODES = (ErrorCode.POLICY_VIOLATION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_no_command_passes_orders_on(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines").write_text("a line\n")
    everything = b""
    for command, apis in COMMANDS.items():
        words = [*command.split(), "-b", peer.bootstrap_servers, "--verbose", *OPTIONS]
        NAMED[:] = [True] if command.startswith(("check", "cluster")) else []
        takes_json = not re.match("produce|perf|.* -f |.* --headers", command)
        for api, code in [(0, 0), *((api, code) for api in apis for code in CODES)]:
            for more in ([], ["--json"]) if takes_json else ([],):
                if code:
                    peer.fail_next(api, code)
                out, err = said([*words, *more], terminal=terminal)
                where = f"{command} {more} {api} {code}"
                if command.startswith("perf"):  # rich draws its figures
                    err = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\r", b"", err)
                check(err.decode(), where)
                is_tail = command.startswith("tail")
                if more or terminal or not is_tail:
                    check(out.decode(), where, lines=not is_tail)
                elif b"\x1b" in out:
                    assert BAD.encode() in out, "a pipe gets the bytes"
                everything += out + err
                peer.model.faults._errors.clear()
    assert everything.count(b"owned") > 50, "the peer had something to say"
    assert b"this is a bug" not in everything


def check(text: str, where: str, *, lines: bool = True) -> None:
    assert not ORDERS.search(text), (where, text)
    assert not (lines and re.search("^FORGED", text, re.M)), (where, text)


async def test_no_line_of_a_log_and_no_error_passes_orders_on(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aioproducer")
    options = {"bootstrap_servers": peer.bootstrap_servers, **QUICK}
    errors: list[BaseException] = []

    async def collect(call: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await call
        except (ProducerError, TimeoutError, ValueError) as error:
            errors.append(error)

    def bad_callback(_: object) -> None:
        raise ValueError(BAD) from OSError(BAD)

    async with Producer(**options, on_failed=bad_callback, acks=1) as producer:
        for api in (Api.METADATA, Api.PRODUCE):
            peer.fail_next(api, ErrorCode.POLICY_VIOLATION)
            await collect(producer.send("orders", b"v"))
            await collect(producer.send("elsewhere", b"v"))
        await collect(producer.check(5, topics=["elsewhere"]))
        check(f"{producer.health()}", "health")
        peer.fail_next(Api.PRODUCE, ErrorCode.POLICY_VIOLATION)
        await collect(producer.send_many("orders", [b"v"]))
    async with Admin(**options) as admin:
        calls: dict[Api, Callable[[], Awaitable[object]]] = {
            Api.CREATE_TOPICS: lambda: admin.create_topics([NewTopic("more")]),
            Api.DELETE_TOPICS: lambda: admin.delete_topics("orders"),
            Api.FIND_COORDINATOR: lambda: admin.describe_groups("billing"),
            Api.DESCRIBE_CONFIGS: lambda: admin.describe_topics("orders", configs=True),
            Api.LIST_GROUPS: admin.list_groups,
        }
        for api, call in calls.items():
            peer.fail_next(api, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            await collect(call())
    NAMED[:] = [True]
    async with Reader("orders", end="end", **options) as reader:
        assert [record.key async for record in reader][:1] == [BAD.encode()]
    NAMED.clear()
    assert len(errors) > 5
    for error in errors:
        check(str(error), repr(error))
        check("".join(traceback.format_exception(error)), repr(error))
    told = "\n".join(map(logging.Formatter("%(message)s").format, caplog.records))
    assert "ValueError" in told
    assert told.count("owned") > 5
    check(told, "log")


def test_no_figures_pass_orders_on() -> None:
    labels = {"client_id": BAD, "topic": BAD, "node_id": BAD}
    names = ("topic_record_send_total", "node_request_total", "record_send_total")
    samples = [Sample(f"kafka_producer_{name}", labels, 1.0) for name in names]
    found = figures(None, Snapshot(0.0, samples))
    assert found
    console = Console(file=StringIO(), markup=False, highlight=False, width=200)
    console.print(picture(BAD, found, rows=9, note=BAD))
    assert isinstance(console.file, StringIO)
    check(console.file.getvalue(), "top on a terminal")
    for each in found:
        check(line(each), "top in a pipe")
        check(json.dumps(each.as_dict()), "top --json")
