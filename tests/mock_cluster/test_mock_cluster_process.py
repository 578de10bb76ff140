"""The mock cluster's process: its ends, its failures, wrong arguments, the command line."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from aioproducer.errors import IllegalStateError, MissingExtraError, ProducerError
from aioproducer.testing import mock_cluster as module
from aioproducer.testing.mock_cluster import (
    DISCONNECT,
    MockCluster,
    MockClusterArgumentError,
    MockClusterError,
)
from aioproducer.testing.ports import free_ports

PATIENCE = 60.0


def ends(address: tuple[str, int]) -> bool:
    """Whether nobody listens there any more, after some patience."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection(address, PATIENCE).close()
        except (ConnectionRefusedError, ConnectionResetError):
            return True
    return False


def is_reaped(process_id: int) -> bool:
    try:
        os.waitpid(process_id, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


WRONG_CALLS: list[Callable[[MockCluster], object]] = [
    lambda c: c.broker_address(0),
    lambda c: c.set_broker_down(4),
    lambda c: c.set_broker_up(-2),
    lambda c: c.set_broker_rtt(4, 1),
    lambda c: c.set_broker_rtt(1, -1),
    lambda c: c.set_broker_address(4, "localhost", 1),
    lambda c: c.set_broker_address(1, "localhost", 65536),
    lambda c: c.set_broker_address(1, "h" * 128, 1),
    lambda c: c.create_topic("orders"),
    lambda c: c.create_topic(""),
    lambda c: c.create_topic("t" * 250),
    lambda c: c.create_topic("a\0b"),
    lambda c: c.create_topic("none", partitions=0),
    lambda c: c.create_topic("none", replication_factor=4),
    lambda c: c.set_topic_error("none", 3),
    lambda c: c.set_topic_error("orders", 40000),
    lambda c: c.set_partition_leader("none", 0, 1),
    lambda c: c.set_partition_leader("orders", 2, 1),
    lambda c: c.set_partition_leader("orders", -1, 1),
    lambda c: c.set_partition_leader("orders", 0, 4),
    lambda c: c.push_leader_response("orders", 2, 1, 1),
    lambda c: c.push_leader_response("orders", 0, 2**31, 1),
    lambda c: c.push_request_errors(999, 1),
    lambda c: c.push_request_errors(0, 40000),
    lambda c: c.push_request_errors(0, -196),
    lambda c: c.push_broker_request_errors(4, 0, (1, 0)),
    lambda c: c.push_broker_request_errors(1, 0, (1, -1)),
    lambda c: c.push_partition_request_errors("orders", 2, 0, 1),
    lambda c: c.clear_request_errors(-1),
    lambda c: c.set_coordinator("transaction", "shop", 4),
    lambda c: c.set_coordinator("share", "shop", 1),  # type: ignore[arg-type]
    lambda c: c.set_api_version(0, 0, 11),
    lambda c: c.set_api_version(0, 3, 2),
    lambda c: c.set_api_version(19, 0, 1),
    lambda c: c.set_group_initial_rebalance_delay(-1),
]


def test_wrong_arguments_are_errors_and_harm_nothing() -> None:
    with MockCluster(topics={"orders": 2}) as cluster:
        for number, wrong_call in enumerate(WRONG_CALLS):
            with pytest.raises(ValueError, match=r".+") as caught:
                wrong_call(cluster)
            assert isinstance(caught.value, MockClusterArgumentError), number
        cluster.set_partition_leader("orders", 1, 1)
    with pytest.raises(MockClusterArgumentError):
        MockCluster(brokers=0)


@pytest.mark.parametrize("topics", [{"a": 0}, {"": 1}])
def test_a_failing_start_leaves_nothing(topics: dict[str, int]) -> None:
    cluster = MockCluster(topics=topics)
    with pytest.raises(MockClusterArgumentError):
        cluster.start()
    with pytest.raises(IllegalStateError):
        cluster.process_id  # noqa: B018


def test_only_inside_of_the_context() -> None:
    cluster = MockCluster()
    calls: list[Callable[[], object]] = [
        cluster.requests,
        lambda: cluster.bootstrap_servers,
        lambda: cluster.create_topic("orders"),
        lambda: cluster.push_request_errors(0, DISCONNECT),
        lambda: cluster.broker_address(1),
    ]
    for _ in range(2):
        for call in calls:
            with pytest.raises(IllegalStateError):
                call()
        with cluster:
            assert cluster.broker_ids == range(1, 4)
            cluster.create_topic("orders")
            with pytest.raises(IllegalStateError):
                cluster.start()
    cluster.close()


def test_a_failing_test_leaves_nothing() -> None:
    def fail() -> None:
        with MockCluster() as cluster:
            left.extend([cluster.process_id, cluster.broker_address(1)])
            raise ZeroDivisionError

    left: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    process_id, address = left
    assert is_reaped(process_id)
    assert ends(address)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_an_error_of_the_next_commands(number: signal.Signals) -> None:
    with MockCluster() as cluster:
        os.kill(cluster.process_id, number)
        for _ in range(3):
            with pytest.raises(MockClusterError, match=rf"crashed by {number.name}, at .*create"):
                cluster.create_topic("orders")


def test_a_crash_that_no_command_met_is_an_error_of_the_exit() -> None:
    def crash(*, then: type[Exception] | None) -> None:
        with MockCluster() as cluster:
            os.kill(cluster.process_id, signal.SIGABRT)
            os.waitid(os.P_PID, cluster.process_id, os.WEXITED | os.WNOWAIT)
            if then is not None:
                raise then

    with pytest.raises(MockClusterError, match="SIGABRT"):
        crash(then=None)
    with pytest.raises(ZeroDivisionError) as caught:
        crash(then=ZeroDivisionError)
    assert ["SIGABRT" in note for note in caught.value.__notes__] == [True]


def test_a_process_that_does_not_answer_is_an_error() -> None:
    with MockCluster() as cluster:
        assert cluster._process is not None
        cluster._process._timeout = 3  # its start may take longer
        os.kill(cluster.process_id, signal.SIGSTOP)
        with pytest.raises(MockClusterError, match=r"did not answer within 3"):
            cluster.set_broker_rtt(1, 1)
        with pytest.raises(MockClusterError):
            cluster.set_broker_rtt(1, 1)


def test_an_interrupted_command_does_not_mix_up_the_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with MockCluster() as cluster:
        with monkeypatch.context() as patch:
            patch.setattr(os, "read", interrupt)
            with pytest.raises(KeyboardInterrupt):
                cluster.requests()
        with pytest.raises(MockClusterError, match="interrupted"):
            cluster.requests()


def test_commands_from_many_threads() -> None:
    with MockCluster() as cluster:

        def create(thread: int) -> None:
            for i in range(100):
                cluster.create_topic(f"topic-{thread}-{i}")
                done.append(i)

        done: list[int] = []
        threads = [threading.Thread(target=create, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 400


def test_confluent_kafka_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with (
        pytest.raises(MissingExtraError, match=r'pip install "aioproducer\[testing\]"') as caught,
        MockCluster(),
    ):
        pass
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, ProducerError)


def test_importing_does_not_import_confluent_kafka() -> None:
    code = f"import sys, {module.__name__}; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_does_not_outlive_a_killed_parent() -> None:
    code = f"""
import os, signal
from {module.__name__} import MockCluster
cluster = MockCluster(brokers=1)
cluster.start()
print(cluster.bootstrap_servers, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        host, _, port = parent.stdout.readline().decode().strip().rpartition(":")
        assert not is_reaped(parent.pid)
        parent.kill()
    assert ends((host, int(port)))


COMMANDS = [[sys.executable, "-m", module.__name__], [sys.executable, "-m", "aioproducer", "mock"]]


@pytest.mark.parametrize("command", COMMANDS, ids=["module", "aioproducer mock"])
def test_a_port_that_is_in_use_is_told_in_a_line(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run(
            [*command, "--port", str(port)], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert f"can't listen at localhost:{port}: Address already in use" in line


def test_ports_of_our_choice() -> None:
    first, _ = ports = next(pairs_of_free_ports())
    with MockCluster(brokers=2, port=first) as cluster:
        assert cluster.bootstrap_servers == ",".join(f"localhost:{port}" for port in ports)
        for port in ports:
            socket.create_connection(("localhost", port), PATIENCE).close()
        cluster.set_broker_down(2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[1]), PATIENCE)
        cluster.set_broker_up(2)
        socket.create_connection(("127.0.0.1", ports[1]), PATIENCE).close()
    with pytest.raises(MockClusterArgumentError, match="port"):
        MockCluster(brokers=2, port=65535)


def pairs_of_free_ports() -> Iterator[tuple[int, int]]:
    for first in free_ports(20):
        with suppress(OSError), socket.socket() as candidate:
            candidate.bind(("127.0.0.1", first + 1))
            yield first, first + 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", COMMANDS, ids=["module", "aioproducer mock"])
def test_command_line(program: list[str], number: signal.Signals) -> None:
    command = [*program, "--port", "0", "--brokers", "2", "--topic", "orders:12"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"Mock cluster ready at (.*)\. Ctrl-C stops it\.\n", line)
        assert found is not None, line
        servers = found[1].split(",")
        assert len(servers) == 2
        host, _, port = servers[1].rpartition(":")
        socket.create_connection((host, int(port)), PATIENCE).close()
        process.send_signal(number)
        assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == (0 if number is signal.SIGINT else -number)
    assert ends((host, int(port)))
