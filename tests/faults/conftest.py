"""Brokers that do what they should not: bare TCP servers, a scripted Kafka, a fault proxy."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aioproducer.testing.fault_proxy import FaultProxy
from tests.support.fake_kafka import FakeKafka
from tests.support.tcp_server import Handler, TcpServer

StartKafka = Callable[..., Awaitable[FakeKafka]]
StartServer = Callable[[Handler], Awaitable[TcpServer]]
StartProxy = Callable[..., Awaitable[FaultProxy]]


@pytest.fixture
async def start_kafka() -> AsyncIterator[StartKafka]:
    """Starts a :class:`FakeKafka` with its arguments."""
    started: list[FakeKafka] = []

    async def start(*arguments: Any, **options: Any) -> FakeKafka:
        kafka = FakeKafka(*arguments, **options)
        started.append(kafka)
        await kafka.start()
        return kafka

    yield start
    for kafka in started:
        await kafka.stop()


@pytest.fixture
async def kafka(start_kafka: StartKafka) -> FakeKafka:
    """One broker with the topic ``orders`` of one partition."""
    return await start_kafka(1, {"orders": 1})


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """Starts a bare TCP server with a handler of its connections."""
    started: list[TcpServer] = []

    async def start(handler: Handler) -> TcpServer:
        server = TcpServer(handler)
        started.append(server)
        await server.start()
        return server

    yield start
    for server in started:
        await server.close()
        assert server.failures == []


@pytest.fixture
async def start_proxy() -> AsyncIterator[StartProxy]:
    """Starts a :class:`FaultProxy` with its arguments: a port, a script."""
    async with AsyncExitStack() as started:

        async def start(*arguments: Any) -> FaultProxy:
            return await started.enter_async_context(FaultProxy(*arguments))

        yield start


@pytest.fixture
def without_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of faults are not logged."""
    caplog.set_level(logging.CRITICAL, "aioproducer")
