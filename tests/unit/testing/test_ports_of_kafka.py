"""The ports of a real Kafka: free ones, or those that are asked for."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaClusterError
from aioproducer.testing.ports import free_ports


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
