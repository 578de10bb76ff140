"""The blocks of pages run as they stand on real brokers, and the tutorial is a transcript.

A block that reads for ever is cancelled when its group has read everything. In the tutorial a line
of a member begins with its name, and the lines of a block may come in any order.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.errors import GroupIdNotFoundError
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.ports import free_ports
from tests.documentation.pages import DOCS, blocks
from tests.documentation.test_blocks import module_of, run
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.kafka


TOPICS_PAGE = DOCS / "how-to" / "topics.md"


async def commit(kafka: KafkaCluster) -> None:
    """An offset of the group that the page is about."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="topics-page"
    ) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"one espresso", key=b"anna", partition=0)
        await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "billing")
        await producer.commit_transaction()


async def _topics_of_the_page(admin: Admin) -> list[str]:
    """The topics of the page that are there."""
    text = TOPICS_PAGE.read_text("utf-8")
    return [name for name in await admin.list_topics() if f'"{name}"' in text]


async def _are_gone(admin: Admin) -> bool:
    return not await _topics_of_the_page(admin)


async def _is_altered(admin: Admin) -> bool:
    found = await admin.describe_configs("orders", names=["retention.ms", "cleanup.policy"])
    return {each.value for each in found["orders"].values()} == {"86400000", "delete,compact"}


async def test_the_blocks_about_topics_run(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        if others := await _topics_of_the_page(admin):  # another test's
            await admin.delete_topics(others)
        await until(lambda: _are_gone(admin), "the topics are gone")
        try:
            for block in blocks(TOPICS_PAGE, "python"):
                if "group_lag" in block.text:
                    await commit(kafka)
                    await until(lambda: admin.group_lag("billing"), "the committed offset")
                text = block.text.replace("localhost:9092", kafka.bootstrap_servers)
                await run(TOPICS_PAGE, block._replace(text=text), module_of(block, monkeypatch))
            await until(lambda: _is_altered(admin), "the configuration of the page")
        finally:
            await admin.delete_topics("orders")
    assert "orders-0" in capsys.readouterr().out


CONSUMING_PAGE = DOCS / "how-to" / "consuming.md"
TOPICS = {"orders": 6, "invoices": 3, "dead-orders": 1}
_numbers = count()


class Surroundings:
    """Records for the groups of the page, and their progress."""

    def __init__(self, admin: Admin, producer: Producer) -> None:
        self._admin = admin
        self._producer = producer

    async def send(self) -> None:
        for partition in range(TOPICS["orders"]):
            self._producer.send("orders", b"%d" % next(_numbers), partition=partition)
        await self._producer.flush()

    async def ends(self) -> int:
        return await self.records_of("orders")

    async def records_of(self, topic: str) -> int:
        places = [TopicPartition(topic, number) for number in range(TOPICS[topic])]
        found = await self._admin.list_offsets(dict.fromkeys(places, "end"))
        return sum(found.values())

    async def is_a_member(self, group: str) -> bool:
        try:
            found = await self._admin.describe_groups(group)
        except GroupIdNotFoundError:
            return False
        return any(member.partitions for member in found[group].members)

    async def has_read_all(self, group: str) -> bool:
        """By its committed offsets; the group `totals` keeps them itself."""
        if group == "totals":
            kept = [each.read_text() for each in Path("totals").glob("*.json")]
            return sum(int(text.strip("[]").split(",")[1]) for text in kept) == await self.ends()
        offsets = await self._admin.group_offsets(group)
        found = [at.offset for where, at in offsets.items() if where.topic == "orders"]
        return sum(found) == await self.ends()


async def run_until_all_is_read(around: Surroundings, group: str, block: Awaitable[None]) -> None:
    """Run ``block`` to its end, or until ``group`` has read what came before it and meanwhile."""
    await around.send()
    task = asyncio.ensure_future(block)
    try:
        await until(lambda: _either(task, around.is_a_member(group)), f"{group} has a member")
        await around.send()
        await until(lambda: _either(task, around.has_read_all(group)), f"{group} has read all")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def serve(app: Any) -> None:
    """A web application, which is healthy as soon as its consumer is in the group."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(base_url="http://app", transport=transport) as client,
    ):

        async def is_healthy() -> bool:
            return (await client.get("/health")).is_success

        await until(is_healthy, "the application is healthy")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def _either(task: asyncio.Future[None], condition: Coroutine[Any, Any, bool]) -> bool:
    return await condition or task.done()


async def test_the_blocks_about_consuming_run(
    kafka: KafkaCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    servers = kafka.bootstrap_servers
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
    ):
        around = Surroundings(admin, producer)
        others = [name for name in await admin.list_topics() if name in TOPICS]
        if others:  # another test's
            await admin.delete_topics(others)

            async def are_gone() -> bool:
                return not TOPICS.keys() & set(await admin.list_topics())

            await until(are_gone, "the topics are gone")
        for topic, partitions in TOPICS.items():
            await kafka.create_topic(topic, partitions)
        try:
            for block in blocks(CONSUMING_PAGE, "python"):
                [group] = set(re.findall(r'group_id="([\w-]+)"', block.text))
                text = block.text.replace("localhost:9092", servers)
                text = text.replace("asyncio.run(main())", "await main()")  # to cancel it
                names = module_of(block, monkeypatch)
                running = run(CONSUMING_PAGE, block._replace(text=text), names)
                if "lifespan(" in text:
                    await running
                    running = serve(names.pop("app"))
                await run_until_all_is_read(around, group, running)
            assert "orders-0" in capsys.readouterr().out
            assert await around.records_of("invoices") > 0
        finally:
            await admin.delete_topics(TOPICS)


TUTORIAL: Final = DOCS / "tutorial" / "consumer-group.md"
FIRST_PAGE: Final = DOCS / "tutorial" / "getting-started.md"
NAMED: Final = re.compile(r"`(\w+\.py)`")
EVENT: Final = re.compile(
    r"^```(?P<language>sh|text)\n(?P<text>.*?)^```$"
    r"|Press Ctrl-C in (?P<interrupted>\w+)'s terminal",
    re.M | re.S,
)
PATIENCE: Final = 60.0


class Terminal:
    """A program that goes on, and the lines that it has printed and nobody has looked at."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))

    def expect(self, lines: list[str]) -> None:
        wait_until(lambda: len(self._lines) >= len(lines), f"{lines} after {self._lines}")
        printed, self._lines = self._lines[: len(lines)], self._lines[len(lines) :]
        assert sorted(printed) == sorted(lines)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE) == 0

    def expect_no_more(self) -> None:
        assert self._lines == []


@contextmanager
def started(command: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def programs() -> dict[str, str]:
    """The Python blocks of both pages by the file's name, which is the last one before a block."""
    found = {}
    for page in (FIRST_PAGE, TUTORIAL):
        lines = page.read_text("utf-8").splitlines()
        for block in blocks(page, "python"):
            found[NAMED.findall("\n".join(lines[: block.line - 1]))[-1]] = block.text
    return found


@pytest.mark.slow
def test_the_page_is_what_its_programs_print(
    kafka_distribution: KafkaDistribution, tmp_path: Path
) -> None:
    cluster = blocks(TUTORIAL, "sh")[0]
    terminals: dict[str, Terminal] = {}
    printed = ""
    with ExitStack() as stack:
        port = str(free_ports(1)[0])
        assert " --port 9092" in cluster.text
        kafka = stack.enter_context(started(cluster.text.replace("9092", port), tmp_path))
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == f"127.0.0.1:{port}\n"
        for name, text in programs().items():
            (tmp_path / name).write_text(text.replace("9092", port), "utf-8")
        for event in EVENT.finditer(TUTORIAL.read_text("utf-8")):
            if event["interrupted"]:
                terminals[event["interrupted"].lower()].interrupt()
            elif event["language"] == "text":
                lines = event["text"].splitlines()
                if lines[0].split()[0] in terminals:
                    terminals[lines[0].split()[0]].expect(lines)
                else:
                    assert printed.splitlines() == lines
            elif (command := event["text"].strip()).startswith("python bill.py "):
                process = stack.enter_context(started(command, tmp_path))
                terminals[command.split()[-1]] = Terminal(process)
            elif command != cluster.text.strip():
                with started(command, tmp_path) as process:
                    printed, _ = process.communicate(timeout=PATIENCE)
        for terminal in terminals.values():
            terminal.expect_no_more()
