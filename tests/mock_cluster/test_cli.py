"""`aioproducer produce`, `check`, `topics` and `cluster` as processes of their own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from aioproducer import ProducerConfig
from aioproducer.cli.lines import RecordFormat
from aioproducer.cli.produce import ConsoleJob, ConsoleProducer
from aioproducer.cli.terminal import Terminal as StandardError
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.descriptors import CLOSED, run_without
from tests.support.read_back import end_offset, read_partition, values
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

PRODUCE = 0
MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED = 10, 29
PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "aioproducer", "produce"]


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """With topic `t` of a single partition."""
    mock_cluster.create_topic("t")
    return mock_cluster


def produce(
    cluster: MockCluster, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "-b", cluster.bootstrap_servers, *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running(
    cluster: MockCluster, *arguments: str, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The program with pipes that stay open."""
    process = subprocess.Popen(
        [*COMMAND, "-b", cluster.bootstrap_servers, *arguments],
        **{"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def error_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


def feed_lines(process: subprocess.Popen[bytes]) -> threading.Thread:
    """Write numbered lines for as long as they are read."""

    def feed() -> None:
        number = 0
        try:
            while True:
                write(process, b"".join(b"line %d\n" % (number + i) for i in range(1000)))
                number += 1000
        except (BrokenPipeError, ValueError):
            pass

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    return thread


# --- what is sent --------------------------------------------------------------------------


def test_lines_are_records_and_bytes_stay_as_they_are(cluster: MockCluster) -> None:
    done = produce(cluster, "t", stdin=b"one\n\n\xff\0\xfe\r\ntwo")
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
    assert values(cluster, "t", 0) == [b"one", b"", b"\xff\0\xfe\r", b"two"]


def test_no_input_is_no_record(cluster: MockCluster) -> None:
    assert produce(cluster, "t").returncode == 0
    assert end_offset(cluster, "t") == 0


@pytest.mark.parametrize("source", ["pipe", "file", "redirected"])
def test_a_hundred_thousand_lines(cluster: MockCluster, tmp_path: Path, source: str) -> None:
    lines = [b"line %d" % number for number in range(100_000)]
    data = b"\n".join(lines)
    path = tmp_path / "lines"
    path.write_bytes(data)
    if source == "pipe":
        done = produce(cluster, "t", "-z", "lz4", stdin=data)
    elif source == "file":
        done = produce(cluster, "t", "-z", "lz4", "--file", str(path))
    else:
        with path.open("rb") as file:
            command = [*COMMAND, "t", "-b", cluster.bootstrap_servers]
            done = subprocess.run(command, stdin=file, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert values(cluster, "t", 0) == lines


def test_keys_headers_and_partition(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", 3)
    done = produce(
        mock_cluster,
        *("--topic", "t", "--partition", "2", "-K", r"\t", "--null-marker", "NULL"),
        *("-H", "trace=1", "-H", "trace=2", "-H", "none", "--compression-type", "zstd"),
        stdin=b"k1\tv1\nk2\tv\t2\nk3\tNULL\nNULL\tv4\n",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    messages = read_partition(mock_cluster, "t", 2)
    assert [(message.key, message.value) for message in messages] == [
        (b"k1", b"v1"),
        (b"k2", b"v\t2"),
        (b"k3", None),
        (None, b"v4"),
    ]
    for message in messages:
        assert message.headers == [("trace", b"1"), ("trace", b"2"), ("none", None)]


def test_a_value_that_is_null(cluster: MockCluster) -> None:
    done = produce(cluster, "t", "--null-marker", "NULL", stdin=b"one\nNULL\n\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert values(cluster, "t", 0) == [b"one", None, b""]


def test_properties_by_either_name_and_a_properties_file(
    cluster: MockCluster, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={cluster.bootstrap_servers}\nacks=all\nlinger.ms=nonsense\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    properties = ["linger_ms=3", "batch.size=99", "parse.key=true", "key.separator=:"]
    options = [word for text in properties for word in ("-X", text)]
    done = subprocess.run(
        [*COMMAND, "t", "--command-config", str(path), *options],
        input=b"k:v\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [(message.key, message.value) for message in read_partition(cluster, "t")] == [
        (b"k", b"v")
    ]


def test_a_transactional_id_of_an_application_is_not_taken(
    cluster: MockCluster, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("transactional.id=billing\n")
    cluster.start_request_tracking()
    named = produce(cluster, "t", "-X", "transactional.id=billing", stdin=b"v\n")
    assert named.returncode == 2
    assert b"produce` has no transactions; leave it out" in named.stderr
    done = produce(cluster, "t", "--command-config", str(path), "-X", "acks=1", stdin=b"v\n")
    asked = {request.api_key for request in cluster.requests()}
    assert done.returncode == 0
    assert FIND_COORDINATOR not in asked
    assert values(cluster, "t", 0) == [b"v"]


def test_a_summary_as_json(cluster: MockCluster) -> None:
    done = produce(cluster, "t", "-K", ":", "--json", stdin=b"k1:v1\nk2:v2\nnone\n")
    assert done.returncode == 1
    assert done.stdout.count(b"\n") == 1
    summary = json.loads(done.stdout)
    assert summary.pop("seconds") > 0
    assert summary.pop("records_per_second") > 0
    assert summary == {"topic": "t", "delivered": 2, "failed": 1, "bytes": 8}


def test_sync_waits_for_each_record(cluster: MockCluster) -> None:
    cluster.start_request_tracking()
    done = produce(cluster, "t", "--sync", stdin=b"".join(b"%d\n" % n for n in range(20)))
    assert done.returncode == 0
    assert values(cluster, "t", 0) == [b"%d" % number for number in range(20)]
    requests = [request for request in cluster.requests() if request.api_key == PRODUCE]
    assert len(requests) == 20


def test_a_typed_line_is_sent_at_once(cluster: MockCluster) -> None:
    with running(cluster, "t") as process:
        for number in range(1, 4):
            write(process, b"%d\n" % number)
            wait_until(lambda expected=number: end_offset(cluster, "t") == expected)  # type: ignore[misc]
        write(process, b"no newline")
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert values(cluster, "t", 0) == [b"1", b"2", b"3", b"no newline"]


# --- signals -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_midst_of_input_delivers_what_was_read(
    cluster: MockCluster, number: signal.Signals
) -> None:
    with running(cluster, "t") as process:
        feeder = feed_lines(process)
        wait_until(lambda: end_offset(cluster, "t") > 5000)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        told = error_line(process)
    feeder.join(PATIENCE)
    delivering = "delivering the records read so far; a second signal gives up"
    assert told == f"aioproducer: {number.name}: {delivering}\n"
    found = values(cluster, "t", 0)
    first = int((found[0] or b"").split()[1])  # the mock cluster forgets the oldest
    assert found == [b"line %d" % (first + index) for index in range(len(found))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_nothing_comes_ends_it(cluster: MockCluster, number: int) -> None:
    with running(cluster, "t") as process:
        write(process, b"one\nhal")
        wait_until(lambda: end_offset(cluster, "t") == 1)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        error_line(process)
        assert error_line(process) == "aioproducer: line 2 was incomplete and was not sent\n"
    assert values(cluster, "t", 0) == [b"one"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_gives_up(cluster: MockCluster, number: signal.Signals, code: int) -> None:
    cluster.start_request_tracking()
    with running(cluster, "t") as process:
        write(process, b"one\n")
        wait_until(lambda: end_offset(cluster, "t") == 1)
        cluster.set_broker_rtt(ALL_BROKERS, 60_000)
        write(process, b"two\nthree\n")
        wait_until(lambda: sum(r.api_key == PRODUCE for r in cluster.requests()) > 1)
        process.send_signal(number)
        assert "delivering" in error_line(process)
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
        assert process.stderr is not None
        assert (
            process.stderr.read()
            .decode()
            .endswith("aioproducer: 2 of 3 records were not delivered\n")
        )


def test_a_second_signal_gives_up_while_memory_is_full(cluster: MockCluster) -> None:
    with running(cluster, "t", "-X", "buffer_memory=300000") as process:
        write(process, b"one\n")
        wait_until(lambda: end_offset(cluster, "t") == 1)
        cluster.set_broker_rtt(ALL_BROKERS, 60_000)
        assert process.stdin is not None
        pipe = process.stdin.fileno()
        os.set_blocking(pipe, False)

        def reads_no_more() -> bool:
            with suppress(BlockingIOError):
                os.write(pipe, b"%999d\n" % 1 * 4)
            unread = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
            return int.from_bytes(unread, sys.byteorder) > 40_000

        wait_until(reads_no_more)
        process.send_signal(signal.SIGINT)
        assert "delivering" in error_line(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_an_ignored_interrupt_stays_ignored(cluster: MockCluster) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with running(cluster, "t", preexec_fn=ignore) as process:
        write(process, b"one\n")
        wait_until(lambda: end_offset(cluster, "t") == 1)
        process.send_signal(signal.SIGINT)
        write(process, b"two\n")
        _, told = process.communicate(timeout=PATIENCE)
        assert (process.returncode, told) == (0, b"")
    assert values(cluster, "t", 0) == [b"one", b"two"]


# --- what goes wrong -----------------------------------------------------------------------


def test_an_unknown_command() -> None:
    done = subprocess.run([*COMMAND[:-1], "consume"], capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr == b"aioproducer: No such command 'consume'. See --help\n"


@pytest.mark.parametrize("option", [[], ["--sync"]])
def test_unreachable_servers_end_it_although_input_goes_on(option: list[str]) -> None:
    command = [*COMMAND, "t", "-b", "127.0.0.1:1", "-X", "max_block_ms=300", *option]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        write(process, b"one\n")
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        told = process.stderr.read().decode()
    assert "127.0.0.1:1" in told
    assert "Traceback" not in told
    assert told.count("no broker answered within 0.3 s") == 1
    assert told.count("\n") == 2, "the failed connection, and the end"
    assert "pending record" not in told


def test_a_line_without_key_names_its_number_and_ends_the_reading(cluster: MockCluster) -> None:
    done = produce(cluster, "t", "-K", ":", stdin=b"a:1\nb2\nc:3\n")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "aioproducer: line 2: no key separator b':' in b'b2'",
        "aioproducer: 1 of 2 records was not delivered",
    ]
    assert values(cluster, "t", 0) == [b"1"]


def test_a_line_without_key_can_be_a_value(cluster: MockCluster) -> None:
    done = produce(cluster, "t", "-K", ":", "--ignore-error", stdin=b"a:1\nb2\n")
    assert done.returncode == 0
    found = [(message.key, message.value) for message in read_partition(cluster, "t")]
    assert found == [(b"a", b"1"), (None, b"b2")]


def test_lines_that_are_too_large_fail_alone(cluster: MockCluster) -> None:
    data = b"one\n" + b"x" * 1001 + b"\ntwo\n" + b"y" * 990 + b"\nthree\n"
    done = produce(cluster, "t", "-X", "max_request_size=1000", stdin=data)
    assert done.returncode == 1
    told = done.stderr.decode().splitlines()
    assert told[0] == "aioproducer: line 2: longer than 1000 bytes (max_request_size)"
    assert told[1].startswith("aioproducer: line 4: ")
    assert told[2] == "aioproducer: 2 of 5 records were not delivered"
    assert values(cluster, "t", 0) == [b"one", b"two", b"three"]


def test_the_brokers_refusal_is_told_once_and_counted(cluster: MockCluster) -> None:
    cluster.push_request_errors(PRODUCE, *[TOPIC_AUTHORIZATION_FAILED] * 100)
    done = produce(cluster, "t", stdin=b"x\n" * 500)
    assert done.returncode == 1
    *_, last = told = done.stderr.decode().splitlines()
    assert len(told) <= 6
    assert "TOPIC_AUTHORIZATION_FAILED" in told[0] or "authoriz" in told[0].lower()
    assert last == "aioproducer: 500 of 500 records were not delivered"


@pytest.mark.parametrize(
    ("key_separator", "data"),
    [(None, b"one\ntwo\n"), (b":", b"k:one\nk:two\n"), (b":", b"k:one\nk:two\nno key\n")],
)
async def test_a_producer_that_can_not_send_names_the_line_and_ends_the_reading(
    cluster: MockCluster, key_separator: bytes | None, data: bytes, tmp_path: Path, capfd: Any
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(data)
    config = ProducerConfig(bootstrap_servers=cluster.bootstrap_servers, transactional_id="mine")
    job = ConsoleJob("t", config, RecordFormat(key_separator=key_separator))
    with path.open("rb") as lines:
        assert await ConsoleProducer(job, lines.fileno(), StandardError()).run() == 1
    told = [each for each in capfd.readouterr().err.splitlines() if "aioproducer: " in each]
    assert told[0].startswith("aioproducer: line 1: ")
    assert "transaction" in told[0]
    assert told[-1] == "aioproducer: 1 of 1 record was not delivered"
    assert end_offset(cluster, "t") == 0


def test_sync_ends_at_the_first_failure(cluster: MockCluster) -> None:
    cluster.push_request_errors(PRODUCE, 0, MESSAGE_TOO_LARGE)
    done = produce(cluster, "t", "--sync", "-X", "retries=0", stdin=b"one\ntwo\nthree\n")
    assert done.returncode == 1
    assert done.stderr.endswith(b"aioproducer: 1 of 2 records was not delivered\n")
    assert values(cluster, "t", 0) == [b"one"]


def test_closed_standard_input(cluster: MockCluster) -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "t", "-b", cluster.bootstrap_servers]
    done = subprocess.run(shell, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (
        2,
        b"aioproducer: standard input is closed; give --file\n",
    )


def test_nobody_reads_standard_error(cluster: MockCluster) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with running(cluster, "t", "-v", stderr=writer) as process:
        os.close(writer)
        process.communicate(b"one\n", timeout=PATIENCE)
        assert process.returncode == 0
    assert values(cluster, "t", 0) == [b"one"]


# --- a terminal ----------------------------------------------------------------------------


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_a_terminal_shows_progress_and_a_summary(
    cluster: MockCluster, terminal: Terminal, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"some line\n" * 300_000)
    cluster.set_broker_rtt(ALL_BROKERS, 1_000)
    options = ("--file", str(path), "-X", "batch_size=1000000")
    with running(cluster, "t", *options, stdin=None, stderr=terminal.theirs) as process:
        assert process.wait(60) == 0
    wait_until(lambda: terminal.shows("300,000 records delivered, 2.7 MB in"))
    assert terminal.shows("━")


def test_typing_at_a_terminal(cluster: MockCluster, terminal: Terminal) -> None:
    with running(cluster, "t", stdin=terminal.theirs, stderr=terminal.theirs) as process:
        wait_until(lambda: terminal.shows("> "))
        terminal.type(b"hello\n")
        wait_until(lambda: end_offset(cluster, "t") == 1)
        terminal.type(b"\x04")  # Ctrl-D
        assert process.wait(PATIENCE) == 0
    wait_until(lambda: terminal.shows("1 record delivered"))
    assert values(cluster, "t", 0) == [b"hello"]


# --- closed standard descriptors ---------------------------------------------------------


@pytest.mark.parametrize("closed", CLOSED)
def test_each_line_is_delivered_once_whatever_is_closed(
    cluster: MockCluster, tmp_path: Path, closed: str
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"one\ntwo\n")
    command = [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--file", str(lines)]
    done = run_without(closed, command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert values(cluster, "t", 0) == [b"one", b"two"]


def test_a_summary_that_nobody_would_get_is_refused_before_the_first_record(
    cluster: MockCluster,
) -> None:
    command = [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--json"]
    done = run_without("1", command, stdin=b"one\n")
    assert (done.returncode, done.stderr) == (2, b"aioproducer: standard output is closed\n")
    assert end_offset(cluster, "t") == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_summary_that_can_not_be_written_is_told_and_the_lines_are_delivered(
    cluster: MockCluster,
) -> None:
    """A script that runs a failed command again would write them twice."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--json"],
            input=b"one\n",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert done.stderr == b"aioproducer: the summary can't be written: No space left on device\n"
    assert done.returncode == 0
    assert values(cluster, "t", 0) == [b"one"]


def test_a_summary_that_nobody_reads_changes_nothing(cluster: MockCluster) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "t", "-b", cluster.bootstrap_servers, "--json"],
        input=b"one\n",
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert values(cluster, "t", 0) == [b"one"]


@pytest.mark.parametrize("closed", ["0", "2", "02"])
@pytest.mark.parametrize(
    "command",
    [
        ["check", "t"],
        ["cluster"],
        ["topics", "list"],
        ["tail", "t", "--from", "beginning", "--until", "end"],
        ["perf", "t", "--num-records", "10", "--record-size", "10"],
    ],
)
def test_commands_run_without_input_and_error(
    cluster: MockCluster, command: list[str], closed: str
) -> None:
    whole = [*COMMAND[:-1], *command, "-b", cluster.bootstrap_servers]
    done = run_without(closed, whole)
    assert done.returncode == 0
    assert done.stdout or command[0] == "tail"


@pytest.mark.parametrize(
    "command",
    [
        ["check", "t"],
        ["cluster"],
        ["topics", "list"],
        ["topics", "create", "new"],
        ["tail", "t", "--until", "end"],
        ["perf", "t", "--num-records", "10", "--record-size", "10"],
    ],
)
def test_a_result_that_nobody_would_get_is_refused_before_the_work(
    cluster: MockCluster, command: list[str]
) -> None:
    whole = [*COMMAND[:-1], *command, "-b", cluster.bootstrap_servers]
    done = run_without("1", whole)
    assert (done.returncode, done.stderr) == (2, b"aioproducer: standard output is closed\n")
    assert end_offset(cluster, "t") == 0


@pytest.mark.parametrize("command", [["dashboard"], ["top", "localhost:1"]])
def test_output_of_commands_without_brokers_is_refused_likewise(command: list[str]) -> None:
    done = run_without("1", [*COMMAND[:-1], *command])
    assert (done.returncode, done.stderr) == (2, b"aioproducer: standard output is closed\n")


INIT_PRODUCER_ID, FIND_COORDINATOR = 22, 10


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aioproducer", "check", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_there_is_printed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    mock_cluster.create_topic("audit")
    done = check("orders", "audit", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert told[0].startswith("cluster      ")
    brokers = [line.split()[-1] for line in told if line.startswith("broker ")]
    assert set(brokers) == set(mock_cluster.bootstrap_servers.split(","))
    topics = [line for line in told if line.startswith("topic ")]
    assert [line.partition(";")[0] for line in topics] == [
        "topic        orders: 3 partitions",
        "topic        audit: 1 partition",
    ]


def test_the_findings_as_json(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    servers = mock_cluster.bootstrap_servers
    done = check("orders", "-b", servers, "--transactional-id", "billing", "--json")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    found = json.loads(done.stdout)
    assert list(found) == ["cluster_id", "brokers", "features", "topics", "coordinator", "compiled"]
    assert found["topics"]["orders"]["partitions"] == 3
    addresses = {f"{broker['host']}:{broker['port']}" for broker in found["brokers"]}
    assert addresses == set(servers.split(","))
    assert found["coordinator"] in found["brokers"]


def test_a_transactional_id_is_looked_for_and_not_taken(
    mock_cluster: MockCluster, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("transactional.id=billing\n")
    mock_cluster.start_request_tracking()
    for options in (["--transactional-id", "billing"], ["--command-config", str(path)]):
        done = check("-b", mock_cluster.bootstrap_servers, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\ncoordinator  " in done.stdout
    asked = [request.api_key for request in mock_cluster.requests()]
    assert FIND_COORDINATOR in asked
    assert INIT_PRODUCER_ID not in asked


def test_what_is_wrong_is_one_line_as_a_producer_has_it() -> None:
    done = check("orders", "-b", "127.0.0.1:1", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aioproducer: check() did not reach the cluster within 0.5 s. ")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aioproducer", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_names_and_partitions(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 2)
    mock_cluster.create_topic("audit")
    servers = ("-b", mock_cluster.bootstrap_servers)
    assert run("topics", "list", *servers).stdout == "audit\norders\n"
    done = run("topics", "describe", "orders", "--json", *servers)
    assert done.returncode == 0
    assert done.stderr.startswith("aioproducer: the settings of topics are not shown: ")
    (topic,) = json.loads(done.stdout)["topics"]
    assert (topic["name"], topic["configs"], len(topic["partitions"])) == ("orders", None, 2)


def test_the_cluster(mock_cluster: MockCluster) -> None:
    done = run("cluster", "--json", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stderr) == (0, "")
    brokers = json.loads(done.stdout)["brokers"]
    addresses = {f"{each['host']}:{each['port']}" for each in brokers}
    assert addresses == set(mock_cluster.bootstrap_servers.split(","))


def test_a_cluster_that_can_t_create_topics_says_so_at_once(mock_cluster: MockCluster) -> None:
    done = run("topics", "create", "orders", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aioproducer: broker ")
    assert done.stderr.endswith(
        ": the broker does not support CREATE_TOPICS requests: it is too old for them, or it is of "
        "a mock cluster, which only stores and returns records\n"
    )


@pytest.mark.parametrize("command", [["topics", "list"], ["cluster"]], ids=" ".join)
def test_no_brokers_are_one_line(command: list[str]) -> None:
    done = run(*command, "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "127.0.0.1:1" in done.stderr
