"""A command that is used in a wrong way, or finds no broker, says so in one line."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.cli.app import run
from aioproducer.cli.early_ends import answer_seconds, first_answer
from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import BootstrapError

SECRET = "hunter2"
NO_SUCH_FILE = "cannot read /nowhere: No such file or directory"
BAD_TOPIC = "a topic is a str of 1 to 249 ASCII letters"
BROKERS = ["-b", "127.0.0.1:1"]
LOGIN = (*BROKERS, "-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=PLAIN")


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The only line that the program prints before it ends with code 2."""
    assert run(arguments) == 2
    told, error = capsys.readouterr()
    assert told == ""
    assert error.startswith("aioproducer: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one topic is needed"),
        (["t", "--topic", "u"], "exactly one topic is needed"),
        (["bad topic"], BAD_TOPIC),
        (["tøpic"], "not 'tøpic'"),
        (["t", "--sink"], "No such option"),
        (["t", "--partition", "-1"], "Invalid value for '--partition'"),
        (["t", "-X", "linger_sm=1"], "did you mean 'linger_ms'?"),
        (["t", "-X", "acks=2"], "acks='2'"),
        (["t", "-z", "rar"], "'gzip'"),
        (["t", "--command-config", "/nowhere"], NO_SUCH_FILE),
        (["t", "--file", "/nowhere"], NO_SUCH_FILE),
        (["t", "--file", "/"], "cannot read /: it is a directory"),
        (["t", "-H", "=x"], "write name=value"),
        (["t", "-b", "localhost"], "has no port"),
    ],
)
def test_produce(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in wrong(capsys, "produce", *BROKERS, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--throughput", "0"], "--throughput 0: a rate is above 0, or -1 for no limit"),
        (["--throughput", "nan"], "--throughput nan: a rate is above 0, or -1 for no limit"),
        (["--throughput", "inf"], "--throughput inf: a rate is above 0, or -1 for no limit"),
        (["--record-size", "99999999999"], "is above the 1048576 bytes of max_request_size"),
        (["--record-size", "5", "--payload-monotonic"], "give one of --record-size"),
        (["--payload-file", "/nowhere"], NO_SUCH_FILE),
        (["--payload-file", "/dev/null"], "/dev/null has no values"),
        (["--payload-file", __file__, "--payload-delimiter", ""], "--payload-delimiter is empty"),
        (["--num-records", "5", "--warmup-records", "5"], "must be less than --num-records"),
        (["--topic", "other"], "exactly one topic is needed: aioproducer perf TOPIC"),
        (["--num-records", "0"], "Invalid value for '--num-records'"),
    ],
)
def test_perf(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in wrong(capsys, "perf", "t", *BROKERS, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delete", "t"], "give --yes to delete t with all records"),
        (["create", "bad name"], BAD_TOPIC),
        (["create", "t", "--partitions", "0"], "Invalid value for '--partitions'"),
        (["create", "t", "--replica-assignment", "x"], "write the broker ids of each partition"),
        (["create", "t", "--replica-assignment", "1:1"], "on different brokers, not on [1, 1]"),
        (["create", "t", "--replica-assignment", "1", "--partitions", "2"], "leave out partitions"),
        (["create", "t", "--partitions", "99999999999"], "partitions is an int from 1 to"),
        (["create", "t", "--config", "x"], "write name=value"),
        (["create"], "Missing argument 'TOPIC'"),
        (["add-partitions", "t"], "Missing option '--partitions'"),
        (["list", "-X", "linger.sm=4"], "did you mean 'linger.ms'"),
    ],
)
def test_topics(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # nobody is there to confirm a deletion
    assert message in wrong(capsys, "topics", *arguments, *BROKERS)


ORDERS = ["--topic", "orders"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe"], "Missing argument 'GROUP'"),
        (["delete", "g"], "give --yes to delete g with all offsets"),
        (["reset-offsets", "g", "--to-end"], "give --topic or --all-topics"),
        (["reset-offsets", "g", *ORDERS, "--all-topics"], "give --topic or --all-topics"),
        (["reset-offsets", "g", *ORDERS], "give one of --to-beginning, --to-end"),
        (["reset-offsets", "g", *ORDERS, "--to-end", "--shift-by", "0"], "give one of --to-b"),
        (["reset-offsets", "g", *ORDERS, "--to-offset", "-1"], "Invalid value for '--to-offset'"),
        (["reset-offsets", "g", *ORDERS, "--to-time", "end"], "--to-time 'end': write a time"),
        (["reset-offsets", "g", "--topic", "a:x", "--to-latest"], "write a topic, or its part"),
        (["reset-offsets", "g", "--topic", "a b", "--to-earliest"], BAD_TOPIC),
    ],
)
def test_groups(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # nobody is there to confirm a deletion
    assert message in wrong(capsys, "groups", *arguments, *BROKERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "noon"], "--from 'noon': write beginning, end, an offset"),
        (["--until", "noon"], "--until 'noon': write beginning"),
        (["--format", "%q"], "the format has %q"),
        (["--json", "--headers"], "give one of --format, --headers and --json"),
        (["--count", "0"], "Invalid value for '--count'"),
        (["-X", "isolation.level=read_everything"], "isolation.level"),
        (["--topic", "other"], "exactly one topic is needed: aioproducer tail TOPIC"),
        (["--group", "g", "--from", "end"], "--from and --group: leave one out"),
        (["--group", "g", "--from-beginning"], "-X auto.offset.reset=earliest"),
        (["-G", "g", "--until", "5"], "--until, or --exit, and --group: leave one out"),
        (["-G", "g", "-e"], "--count N ends it"),
        (["-G", "g", "-p", "0"], "--partition and --group: leave one out"),
        (["-G", ""], "group_id is the name of the group"),
        (["-G", "g", "-X", "group.protocol=share"], "group.protocol='share'"),
        (["-G", "g", "-X", "heartbeat.interval.ms=20000"], "at most a third of session_timeout_ms"),
        (["-G", "g", "-X", "enable.auto.commit=false"], "enable.auto.commit"),
        (["-G", "g", "-X", "auto_commit=false"], "auto_commit"),
        (["-X", "group_instance_id=one"], "group_instance_id"),
    ],
)
def test_tail(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in wrong(capsys, "tail", "t", *BROKERS, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BROKERS, "bad topic"], BAD_TOPIC),
        ([], "no brokers are given"),
        ([*BROKERS, "--timeout", "0"], "Invalid value for '--timeout'"),
        (
            [*BROKERS, "-X", "security.protocol=SASL_SSL"],
            "security_protocol='SASL_SSL' needs sasl_mechanism",
        ),
        ([*BROKERS, "-X", "sasl.password=${env:PASSWORD}"], "sasl_password"),
        (
            [*LOGIN, "-X", f"sasl.jaas.config=a.LoginModule require p='{SECRET}';"],
            "sasl_jaas_config: at character",
        ),
        (
            [*BROKERS, "-X", f"sasl.jaas.config=a.LoginModule require p='{SECRET}';"],
            "sasl_jaas_config needs a security_protocol with a login",
        ),
    ],
)
def test_check_tells_no_secret(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    line = wrong(capsys, "check", *arguments)
    assert message in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://h"], "is not the address of an endpoint"),
        ([":1", "--interval", "0"], "--interval 0: give"),
        ([":1", "--interval", "nan"], "--interval nan: give"),
        ([":1", "--count", "0"], "'--count'"),
        ([], "URL"),
    ],
)
def test_top(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in wrong(capsys, "top", *arguments)


CONFIG = ProducerConfig(bootstrap_servers="127.0.0.1:1")
COMMANDS = (
    "topics list",
    "topics create t",
    "groups list",
    "groups describe g",
    "cluster",
    "tail t",
    "tail t -G g",
    "perf t --num-records 1",
    "perf t --num-records 1 --transactional-id x",
)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_broker_says_so(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*command.split(), "-b", "127.0.0.1:1", "-X", "max.block.ms=400"]
    assert run(words) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        r"aioproducer: no broker answered within 0\.4 s\. bootstrap server 127\.0\.0\.1:1: .*"
        r"Check the address \(-b\).*aioproducer mock.*-X max\.block\.ms=60000 waits longer",
        error,
    )


def test_lines_are_not_read_before_a_broker_has_answered(
    silent: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    words = ["produce", "t", "--file", str(lines), "-b", silent, "-X", "max.block.ms=400"]
    assert run(words) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith(
        f"aioproducer: no broker answered within 0.4 s. bootstrap server {silent}: no response yet"
    )


def test_the_first_answer_takes_ten_seconds_unless_the_user_says_otherwise() -> None:
    assert answer_seconds(CONFIG) == 10
    assert answer_seconds(CONFIG.replace(max_block_ms=60_000)) == 60


async def test_a_command_goes_on_if_a_broker_has_answered_once() -> None:
    client = ClusterClient(CONFIG, "test", "Admin")
    with pytest.raises(BootstrapError):
        async with first_answer(client, 0.01):
            await asyncio.sleep(60)
    client.answered = True
    async with first_answer(client, 0.01):
        await asyncio.sleep(0.1)
    await client.close()


async def test_a_timeout_of_the_command_itself_is_left_alone() -> None:
    client = ClusterClient(CONFIG, "test", "Admin")
    with pytest.raises(TimeoutError, match="of its own"):
        async with first_answer(client, 60):
            raise TimeoutError("of its own")
    await client.close()
