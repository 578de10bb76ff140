"""Ports for servers of tests."""

from __future__ import annotations

import socket

import pytest

from aioproducer.testing.ports import ReservedPort, free_ports


def test_free_ports_are_different_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


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
