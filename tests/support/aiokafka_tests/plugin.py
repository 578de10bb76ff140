"""A pytest plugin: the fixtures of aiokafka's tests, and the producer that they get."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka  # type: ignore[import-untyped]
import aiokafka.consumer  # type: ignore[import-untyped]
import aiokafka.producer  # type: ignore[import-untyped]
import pytest

CLIENT: Final = "AIOKAFKA_TESTS_CLIENT"
"""The variable of the client: ``aioproducer`` or ``aiokafka``."""
KAFKA: Final = "AIOKAFKA_TESTS_KAFKA"
"""The variable of the broker: host, port, port with TLS, version."""
CERTIFICATES: Final = "AIOKAFKA_TESTS_CERTIFICATES"
"""The variable of the folder with the certificates for TLS."""

if os.environ.get(CLIENT) == "aioproducer":
    from aioproducer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    aiokafka.AIOKafkaProducer = aiokafka.producer.AIOKafkaProducer = AIOKafkaProducer
    aiokafka.AIOKafkaConsumer = aiokafka.consumer.AIOKafkaConsumer = AIOKafkaConsumer


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for the tests of a class; its tasks end before it, as in ``asyncio.run()``.

    One test leaves a producer unclosed.
    """
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield runner.get_loop()
        gc.collect()
        asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """A test's ResourceWarnings are its own."""
    yield
    gc.collect()


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """What the classes of the tests expect as their attributes."""
    host, port, tls_port, version = os.environ[KAFKA].split(",")
    attributes: dict[str, Any] = {
        "loop": loop,
        "hosts": [f"{host}:{port}"],
        "kafka_host": host,
        "kafka_port": int(port),
        "kafka_ssl_port": int(tls_port),
        "kafka_version": version,
        "ssl_folder": Path(os.environ[CERTIFICATES]),
    }
    for name, value in attributes.items():
        setattr(request.cls, name, value)
