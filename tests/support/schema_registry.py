"""The fixture of a real schema registry, for the conftest of tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_distribution import KafkaUnavailableError

__all__ = ["registry_server", "started"]


def started() -> SchemaRegistryServer:
    """A registry of one test's own. Without one the test is skipped; with
    AIOPRODUCER_REQUIRE_KAFKA=1 it fails."""
    try:
        return SchemaRegistryServer()
    except KafkaUnavailableError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but no registry: {error}", pytrace=False)
        pytest.skip(f"NO SCHEMA REGISTRY HERE, NOTHING IS PROVED: {error}")


@pytest.fixture(scope="session")
def registry_server() -> Iterator[SchemaRegistryServer]:
    """One registry for the session: use subjects of your own, leave the global settings alone."""
    with started() as server:
        yield server
