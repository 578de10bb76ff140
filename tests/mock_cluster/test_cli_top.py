"""`aioproducer top` as a process of its own, with a process of two producers to look at."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest
from prometheus_client import CollectorRegistry

from aioproducer import Producer
from aioproducer.observability.prometheus import ProducerCollector
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.http_endpoint import HttpEndpoint, ok

PATIENCE = 60.0
LIVE = 'aioproducer_live{client_id="web"} 1\nkafka_producer_record_send_total{client_id="web"} %d\n'


def top(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "aioproducer", "top", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(*arguments: str) -> tuple[int, str, str]:
    with top(*arguments) as process:
        told, error = process.communicate(timeout=PATIENCE)
        return process.returncode, told, error


async def test_lines_and_json_of_real_producers(
    mock_cluster: MockCluster, registry: CollectorRegistry, metrics_address: str
) -> None:
    mock_cluster.create_topic("orders", 3)
    servers = mock_cluster.bootstrap_servers
    collector = ProducerCollector(registry=registry)
    async with (
        Producer(bootstrap_servers=servers, client_id="web") as web,
        Producer(bootstrap_servers=servers, client_id="jobs") as jobs,
    ):
        collector.add(web)
        collector.add(jobs)
        done = asyncio.Event()

        async def send() -> None:
            while not done.is_set():
                await web.send_many("orders", [b"x" * 100] * 10)
                await asyncio.sleep(0.01)

        sending = asyncio.create_task(send())
        try:
            code, told, error = await asyncio.to_thread(
                ended, metrics_address, "-n", "2", "-i", "0.5", "--json"
            )
            assert (code, error) == (0, "")
            found = [json.loads(each) for each in told.splitlines()]
            assert [each["client_id"] for each in found] == ["jobs", "web"] * 2
            for each in found[1::2]:
                assert each["records_per_second"] > 0
                assert each["latency_ms"]["p99"] > 0
                assert [topic["topic"] for topic in each["topics"]] == ["orders"]
                assert each["state"] == "writes"
            assert all(each["records_per_second"] == 0 for each in found[::2])

            code, told, error = await asyncio.to_thread(
                ended, metrics_address, "-n", "1", "-i", "0.2"
            )
            assert (code, error) == (0, "")
            [idle, busy] = told.splitlines()
            assert idle.startswith("jobs: idle, 0.0 records/sec")
            assert re.match(r"web: writes, [\d,.]+ records/sec \(", busy)
        finally:
            done.set()
            await sending


def test_a_wrong_endpoint_is_one_line() -> None:
    with HttpEndpoint(ok("python_info 1\n")) as server:
        url = f"http://{server.address}/metrics"
        code, told, error = ended(server.address)
    assert (code, told) == (1, "")
    assert error.startswith(f"aioproducer: {url}: there are no producers")
    assert error.count("\n") == 1
    assert ended(server.address) == (1, "", f"aioproducer: {url}: Connection refused\n")


def test_it_goes_on_when_the_endpoint_fails() -> None:
    answers = [ok(LIVE % 1), ok("", 500), ok("", 500), ok(LIVE % 2)]
    with HttpEndpoint(*answers) as server:
        code, told, error = ended(server.address, "-n", "3", "-i", "0.05")
    assert code == 0
    assert error.splitlines() == [
        f"aioproducer: http://{server.address}/metrics: HTTP 500 Internal Server Error; trying on",
        "aioproducer: the endpoint answers again",
    ]
    assert told.count("web: idle") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it(number: signal.Signals) -> None:
    with HttpEndpoint(ok(LIVE % 1)) as server, top(server.address, "-i", "0.05") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("web: ")
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE)
        assert (process.returncode, error) == (0, "")


def test_it_ends_when_nobody_reads() -> None:
    with HttpEndpoint(ok(LIVE % 1)) as server, top(server.address, "-i", "0.05") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("web: ")
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_a_picture_on_a_terminal_and_its_trouble() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    seen = b""
    with HttpEndpoint(ok(LIVE % 1), ok(LIVE % 2), ok("", 500)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "aioproducer", "top", server.address, "-i", "0.05"],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
        )
        os.close(theirs)
        with process:
            while b"trying on" not in seen:
                seen += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            try:
                while data := os.read(ours, 65536):
                    seen += data
            except OSError:
                pass  # Linux's word for the end of a terminal
            assert process.wait(PATIENCE) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
    os.close(ours)
    told = seen.decode()
    assert "web" in told
    assert told.endswith("\x1b[?25h")  # the cursor is back
