"""Ports for servers of tests: free ones, those of processes side by side, those of a Kafka."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaClusterError
from aioproducer.testing.ports import PORTS_VARIABLE, ReservedPort, free_ports, port_range
from tests.support.side_by_side import part, take_ports_of_this_process


def test_free_ports_are_different_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_a_port_is_given_once_while_others_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the first port may start after the last call."""
    [first] = free_ports(1)
    monkeypatch.setenv(PORTS_VARIABLE, f"{first}-{first + 99}")
    ports = [port for _ in range(5) for port in free_ports(10)]
    assert len(set(ports)) == 50


def test_a_reserved_port_refuses_connections_and_is_not_free() -> None:
    [port] = free_ports(1)
    reserved = ReservedPort("127.0.0.1", port)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    reserved.release()
    reserved.release()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_free_ports_are_in_the_range_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    [first] = free_ports(1)
    monkeypatch.setenv(PORTS_VARIABLE, f"{first}-{first}")
    assert free_ports(1) == [first]
    with pytest.raises(OSError, match="only 1 of 2 ports are free"):
        free_ports(2)


@pytest.mark.parametrize("named", ["20000", "20000-", "200-100", "1-65536", "0-9", "ten-twenty"])
def test_what_is_no_range_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv(PORTS_VARIABLE, named)
    with pytest.raises(ValueError, match="a range such as 20000-23999"):
        free_ports(1)


def test_the_parts_of_a_range_have_no_port_in_common() -> None:
    parts = [part(range(100, 111), number, 3) for number in range(3)]
    assert parts == [range(100, 103), range(103, 106), range(106, 109)]


@pytest.mark.parametrize(("worker", "mine"), [("gw0", range(100, 105)), ("gw3", range(105, 110))])
def test_a_process_of_the_tests_takes_its_part(
    monkeypatch: pytest.MonkeyPatch, worker: str, mine: range
) -> None:
    """Number 3 of two stands for one that has ended."""
    monkeypatch.setenv(PORTS_VARIABLE, "100-109")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    take_ports_of_this_process()
    assert port_range() == mine


def test_one_process_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv(PORTS_VARIABLE, "100-109")
    take_ports_of_this_process()
    assert port_range() == range(100, 110)


def test_the_brokers_take_the_port_that_is_asked_for_and_the_next_ones() -> None:
    [port] = free_ports(1)
    cluster = KafkaCluster(2, port=port)
    assert cluster.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    ports = [each for broker in cluster.brokers for each in broker.ports.values()]
    assert len(set(ports)) == len(ports)


def test_a_port_in_use_is_told_before_kafka_starts() -> None:
    command = [sys.executable, "-m", "aioproducer.testing.kafka_cluster", "--port"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(KafkaClusterError, match=f"port {port} can't be used: .* in use"):
            KafkaCluster(port=port)
        done = subprocess.run(
            [*command, str(port)], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"port {port} can't be used")


def test_a_number_that_is_no_port_is_told() -> None:
    with pytest.raises(ValueError, match="from 1 to 65535, not 70000"):
        KafkaCluster(port=70_000)
