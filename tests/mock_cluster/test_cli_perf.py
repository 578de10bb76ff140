"""`aioproducer perf` and `aioproducer top` as processes of their own."""

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
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aioproducer import Producer
from aioproducer.observability.prometheus import ProducerCollector
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.http_server import answer, serving
from tests.support.read_back import end_offset, read_topic, values
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

PRODUCE = 0
TOPIC_AUTHORIZATION_FAILED = 29
PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "aioproducer", "perf"]


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """With topic `t` of a single partition."""
    mock_cluster.create_topic("t")
    return mock_cluster


def perf(cluster: MockCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "t", "-b", cluster.bootstrap_servers, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_record_is_sent_and_timed(cluster: MockCluster) -> None:
    done = perf(cluster, "--num-records", "12345", "--record-size", "50")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(
        r"12345 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
        r"[\d.]+ ms max latency, [\d.]+ ms 50th, [\d.]+ ms 95th, [\d.]+ ms 99th, "
        r"[\d.]+ ms 99.9th.\n",
        done.stdout,
    )
    found = values(cluster, "t", 0)
    assert len(found) == 12345
    assert {len(value or b"") for value in found} == {50}


def test_the_result_as_json(cluster: MockCluster) -> None:
    options = ["--num-records", "3000", "--warmup-records", "1000", "--json"]
    done = perf(cluster, *options, "--print-metrics")
    assert (done.returncode, done.stderr) == (0, "")
    found = result(done)
    assert list(found) == [
        *("topic", "interrupted", "failed", "error", "records", "bytes", "seconds"),
        *("records_per_second", "mebibytes_per_second", "latency_ms", "steady_state"),
        *("transactions", "metrics"),
    ]
    assert (found["records"], found["bytes"], found["failed"]) == (3000, 300_000, 0)
    latency = found["latency_ms"]
    assert list(latency) == ["avg", "max", "p50", "p95", "p99", "p99.9"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    assert found["steady_state"]["records"] == 2000
    assert found["metrics"]["producer-metrics"]["record-send-total"] == 3000


def test_metrics_without_a_value_are_null_in_json(cluster: MockCluster) -> None:
    done = perf(cluster, "--num-records", "5", "--print-metrics", "--json")
    constants: list[str] = []
    found = json.loads(done.stdout, parse_constant=constants.append)
    assert constants == []
    assert found["metrics"]["producer-metrics"]["record-send-total"] == 5


def test_latency_is_the_time_to_the_acknowledgement(cluster: MockCluster) -> None:
    cluster.set_broker_rtt(ALL_BROKERS, 200)
    done = perf(cluster, "--num-records", "10", "--json")
    assert result(done)["latency_ms"]["p50"] >= 200


def test_a_rate_is_kept_and_told(cluster: MockCluster) -> None:
    options = ["--num-records", "1000", "--throughput", "500", "--reporting-interval", "500"]
    done = perf(cluster, *options, "--json")
    assert result(done)["seconds"] >= 1.99
    told = done.stderr.splitlines()
    assert told
    assert all(" records sent, " in line for line in told)


def test_values_of_a_file(cluster: MockCluster, tmp_path: Path) -> None:
    path = tmp_path / "values"
    path.write_bytes(b"one\n\xff|two|three|")
    options = ("--payload-file", str(path), "--payload-delimiter", r"\x7c")
    done = perf(cluster, "--num-records", "500", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(values(cluster, "t", 0)) == {b"one\n\xff", b"two", b"three"}


def test_a_file_may_have_empty_values_alone(cluster: MockCluster, tmp_path: Path) -> None:
    payloads = tmp_path / "payloads"
    payloads.write_bytes(b"\n\n\n")
    found = result(perf(cluster, "--num-records", "7", "--payload-file", str(payloads), "--json"))
    assert (found["records"], found["bytes"]) == (7, 0)


def test_numbers_as_values(cluster: MockCluster) -> None:
    done = perf(cluster, "--num-records", "1200", "--payload-monotonic")
    assert done.returncode == 0
    assert values(cluster, "t", 0) == [b"%d" % number for number in range(1200)]


def test_transactions_are_committed_after_their_time(cluster: MockCluster) -> None:
    options = ["--throughput", "1000", "--transaction-duration-ms", "200", "--json"]
    done = perf(cluster, "--num-records", "1000", *options)
    assert (done.returncode, done.stderr) == (0, "")
    found = result(done)
    assert found["records"] == 1000
    assert found["transactions"]["committed"] >= 2
    assert found["transactions"]["commit_ms"]["max"] > 0


def test_an_interrupt_ends_with_what_was_measured(cluster: MockCluster) -> None:
    command = [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--throughput", "2000", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: end_offset(cluster, "t") > 500)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert told == b"aioproducer: SIGINT: waiting for the records sent; a second signal gives up\n"
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["records"] == end_offset(cluster, "t") > 500
    assert len(read_topic(cluster, "t")) == found["records"]


@pytest.mark.parametrize("options", [[], ["--transactional-id", "mine"]], ids=" ".join)
def test_a_second_interrupt_gives_up(cluster: MockCluster, options: list[str]) -> None:
    cluster.start_request_tracking()
    command = [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--throughput", "100", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        wait_until(lambda: end_offset(cluster, "t") > 10)
        cluster.set_broker_rtt(ALL_BROKERS, 60_000)
        sent = len(cluster.requests())
        wait_until(lambda: len(cluster.requests()) > sent)
        process.send_signal(signal.SIGINT)
        assert b"a second signal gives up" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b" records sent, " in out
    assert re.search(rb"records? (was|were) not delivered", told)


def test_a_terminal_shows_a_table_while_the_run_lasts(cluster: MockCluster) -> None:
    terminal = Terminal()
    options = ("--num-records", "1500", "--throughput", "1000")
    command = [*COMMAND, "t", "-b", cluster.bootstrap_servers, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal.theirs) as process:
        wait_until(lambda: terminal.shows("so far"))
        out, _ = process.communicate(timeout=PATIENCE)
    wait_until(lambda: terminal.shows("1,500"))
    assert terminal.shows("p99.9")
    assert terminal.shows("ms")
    assert out.startswith(b"1500 records sent, ")
    terminal.close()


def test_the_brokers_refusal_ends_the_run(cluster: MockCluster) -> None:
    cluster.push_request_errors(PRODUCE, *[TOPIC_AUTHORIZATION_FAILED] * 1000)
    done = perf(cluster, "--json")
    assert done.returncode == 1
    found = result(done)
    assert found["records"] == 0
    assert found["failed"] > 0
    first, *_, last = done.stderr.splitlines()
    assert "authoriz" in first.lower()
    assert re.search("records? (was|were) not delivered$", last)


def test_without_brokers_there_is_one_line() -> None:
    command = [*COMMAND, "t", "-b", "127.0.0.1:1", "-X", "max.block.ms=300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no broker answered within 0.3 s" in done.stderr


LIVE = (
    b'aioproducer_live{client_id="web"} 1\nkafka_producer_record_send_total{client_id="web"} %d\n'
)


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
    with serving(answer(200, b"python_info 1\n")) as server:
        url = f"http://{server.address}/metrics"
        code, told, error = ended(server.address)
    assert (code, told) == (1, "")
    assert error.startswith(f"aioproducer: {url}: there are no producers")
    assert error.count("\n") == 1
    assert ended(server.address) == (1, "", f"aioproducer: {url}: Connection refused\n")


def test_it_goes_on_when_the_endpoint_fails() -> None:
    answers = [answer(200, LIVE % 1), answer(500), answer(500), answer(200, LIVE % 2)]
    with serving(*answers) as server:
        code, told, error = ended(server.address, "-n", "3", "-i", "0.05")
    assert code == 0
    assert error.splitlines() == [
        f"aioproducer: http://{server.address}/metrics: "
        "HTTP 500 Internal Server Error; still trying",
        "aioproducer: the endpoint answers again",
    ]
    assert told.count("web: idle") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it(number: signal.Signals) -> None:
    with serving(answer(200, LIVE % 1)) as server, top(server.address, "-i", "0.05") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("web: ")
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE)
        assert (process.returncode, error) == (0, "")


def test_it_ends_when_nobody_reads() -> None:
    with serving(answer(200, LIVE % 1)) as server, top(server.address, "-i", "0.05") as process:
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
    with serving(answer(200, LIVE % 1), answer(200, LIVE % 2), answer(500)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "aioproducer", "top", server.address, "-i", "0.05"],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
        )
        os.close(theirs)
        with process:
            while b"still trying" not in seen:
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
