"""`aioproducer tail` as a process of its own, after librdkafka's mock cluster got records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.waiting import wait_until

PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "aioproducer", "tail"]
FETCH = 1
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """With topic `t` of a single partition."""
    mock_cluster.create_topic("t")
    return mock_cluster


async def send(cluster: MockCluster, first: int, count: int, **options: Any) -> None:
    """Records with their number as value; a second lies between two of them."""
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(first, first + count):
            time_ms = FIRST_MS + number * 1000
            await producer.send("t", b"%d" % number, timestamp_ms=time_ms, **options)


def tail(cluster: MockCluster, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "t", "-b", cluster.bootstrap_servers, *arguments],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def following(cluster: MockCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, when it has asked for records."""
    cluster.start_request_tracking()
    with subprocess.Popen(
        [*COMMAND, "t", "-b", cluster.bootstrap_servers, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            wait_until(lambda: any(r.api_key == FETCH for r in cluster.requests()))
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--from", "beginning", "--until", "end"], range(10)),
        (["--from-beginning", "-e"], range(10)),
        (["--from-beginning", "-e", "--count", "99999999999999999999"], range(10)),
        (["--from", "7", "-e"], range(7, 10)),
        (["-o", "-3", "-e"], range(7, 10)),
        (["--from", "2", "--until", "5"], range(2, 5)),
        (["--from", "2", "--until", "-2"], range(2, 8)),
        (["--from", "beginning", "--count", "4"], range(4)),
        (["--from", "beginning", "--max-messages", "4"], range(4)),
        (["--from", "end", "--until", "end"], range(0)),
        (["-X", "fetch.max.bytes=100", "-X", "read_ahead_bytes=100", "-o", "0", "-e"], range(10)),
    ],
)
async def test_positions(cluster: MockCluster, options: list[str], numbers: range) -> None:
    await send(cluster, 0, 10)
    done = tail(cluster, *options)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"".join(b"%d\n" % number for number in numbers)


@pytest.mark.parametrize("options", [["-e"], ["--until", "5"], []])
async def test_a_position_beyond_the_end_is_one_line(
    cluster: MockCluster, options: list[str]
) -> None:
    await send(cluster, 0, 10)
    ended = tail(cluster, "-o", "99999", *options)
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert "t-0: the log has no offset 99999: it begins at 0 and ends at 10" in line
    reset = tail(cluster, "-o", "99999", *options, "-X", "auto.offset.reset=earliest", "-c", "3")
    assert (reset.returncode, reset.stdout) == (0, b"0\n1\n2\n")


async def test_new_records_come_as_they_are_written(cluster: MockCluster) -> None:
    await send(cluster, 0, 5)
    with following(cluster) as process:
        assert process.stdout is not None
        for number in (5, 6, 7):
            await send(cluster, number, 1)
            assert process.stdout.readline() == b"%d\n" % number
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.communicate() == (b"", b"")


async def test_formats(cluster: MockCluster) -> None:
    await send(cluster, 0, 1, key=b"k", headers=[("a", b"1"), ("b", None)])
    begin = ("--from", "0", "-e")
    form = r"%t %p %o %k %s %h %T\n"
    assert tail(cluster, *begin, "-f", form).stdout == b"t 0 0 k 0 a=1,b= %d\n" % FIRST_MS
    assert tail(cluster, *begin, "--headers").stdout == b"a=1,b=\t0\n"
    assert tail(cluster, *begin, "--headers", "--null-marker", "-").stdout == b"a=1,b=-\t0\n"
    assert json.loads(tail(cluster, *begin, "--json").stdout) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": FIRST_MS,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "0",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


async def test_some_partitions(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", 4)
    for partition in range(4):
        await send(mock_cluster, partition * 10, 2, partition=partition)
    every = tail(mock_cluster, "-o", "beginning", "-e").stdout.split()
    assert sorted(every) == [b"0", b"1", b"10", b"11", b"20", b"21", b"30", b"31"]
    some = tail(mock_cluster, "-o", "beginning", "-e", "-p", "1", "-p", "3").stdout.split()
    assert sorted(some) == [b"10", b"11", b"30", b"31"]


async def test_a_pipe_that_nobody_reads_ends_it_quietly(cluster: MockCluster) -> None:
    await send(cluster, 0, 100)
    program = " ".join([*COMMAND, "t", "-b", cluster.bootstrap_servers, "--from", "beginning"])
    done = subprocess.run(
        ["bash", "-c", f"{program} | head -n 3; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"0\n1\n2\n0\n", b"")


async def test_a_slow_reader_can_be_interrupted(cluster: MockCluster) -> None:
    await send(cluster, 0, 20, key=bytes(50_000))
    with following(cluster, "--from", "beginning", "-f", "%k") as process:
        assert process.stdout is not None
        assert len(process.stdout.read(10_000)) == 10_000
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


async def test_a_regular_file_gets_everything(cluster: MockCluster, tmp_path: Any) -> None:
    await send(cluster, 0, 20, key=bytes(50_000))
    with (tmp_path / "out").open("wb") as file:
        options = ["--from", "beginning", "-e", "-f", "%k", "-b", cluster.bootstrap_servers]
        subprocess.run([*COMMAND, "t", *options], stdout=file, timeout=PATIENCE, check=True)
    assert (tmp_path / "out").read_bytes() == bytes(20 * 50_000)


def test_standard_output_is_closed(cluster: MockCluster) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "t", "-b", cluster.bootstrap_servers]
    done = subprocess.run(shell, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (2, b"aioproducer: standard output is closed\n")


@pytest.mark.parametrize(("partition", "word"), [("0", "UNKNOWN_TOPIC"), ("9", "t-9")])
def test_a_topic_or_partition_that_is_not_there_is_one_line(
    mock_cluster: MockCluster, partition: str, word: str
) -> None:
    if partition == "9":
        mock_cluster.create_topic("t")
    done = tail(mock_cluster, "-p", partition, "-X", "max.block.ms=500")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    assert word in done.stderr.decode()


def test_an_interrupt_before_a_broker_answers_ends_it() -> None:
    command = [*COMMAND, "t", "-b", "127.0.0.1:1", "-v"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"127.0.0.1:1" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_no_brokers_are_one_line() -> None:
    command = [*COMMAND, "t", "-b", "127.0.0.1:1", "-X", "max.block.ms=300"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(b"aioproducer: ")
    assert b"127.0.0.1:1" in last


def test_a_terminal_that_closes_ends_it() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "t", "-b", "127.0.0.1:1"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
