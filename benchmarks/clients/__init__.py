"""Who is measured, and with which settings. Every client stands here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.clients import defaults, tuned
from benchmarks.clients.settings import Choice, Settings

__all__ = ["CLIENTS", "Client", "Choice", "Settings"]


@dataclass(frozen=True, slots=True)
class Client:
    """One client as it is measured; its driver is the class ``Driver`` of ``module``."""

    name: str
    module: str
    distribution: str | None
    """Where its version is found; None: it is no Python package."""
    tuned: Mapping[str, Settings]
    """The best options found, by workload; one that is missing here it cannot do."""
    defaults: Mapping[str, Settings]
    """The same with its own defaults."""
    uvloop: bool = False
    ours: bool = False
    program: str = "benchmarks.client"
    """The module that measures it, in a process of its own."""
    brokers: tuple[str, ...] = ("mock", "kafka")
    """Those that it can talk to."""
    tls: Settings | None = None
    """Its options for TLS, the last of them the file of whom it trusts; None: not measured."""

    def settings(self, choice: Choice) -> Mapping[str, Settings]:
        """By workload."""
        return self.tuned if choice is Choice.TUNED else self.defaults

    def options(self, workload: str, choice: Choice, authority: str | None) -> Settings:
        """``authority``: the file of whom it trusts, where it has to speak TLS."""
        settings = self.settings(choice)[workload]
        if authority is None:
            return settings
        *_, trusted = self.tls or {}
        return {**settings, **(self.tls or {}), trusted: authority}


_OURS_BY_TLS: Settings = {"security_protocol": "SSL", "ssl_truststore_location": ""}

CLIENTS = {
    client.name: client
    for client in (
        Client(
            "aioproducer",
            "aioproducer_client",
            "aioproducer",
            tuned.OURS,
            defaults.OURS,
            uvloop=True,
            ours=True,
            tls=_OURS_BY_TLS,
        ),
        Client(
            "aioproducer-asyncio",
            "aioproducer_client",
            "aioproducer",
            tuned.OURS,
            defaults.OURS,
            ours=True,
            tls=_OURS_BY_TLS,
        ),
        Client(
            "aioproducer-sync",
            "aioproducer_sync_client",
            "aioproducer",
            tuned.OURS_BLOCKING,
            defaults.OURS_BLOCKING,
            ours=True,
        ),
        Client(
            "confluent",
            "confluent_client",
            "confluent-kafka",
            tuned.CONFLUENT,
            defaults.CONFLUENT,
            tls={"security.protocol": "ssl", "ssl.ca.location": ""},
        ),
        Client(
            "confluent-idempotent",
            "confluent_client",
            "confluent-kafka",
            tuned.CONFLUENT_IDEMPOTENT,
            defaults.CONFLUENT_IDEMPOTENT,
        ),
        Client(
            "confluent-aio",
            "confluent_aio_client",
            "confluent-kafka",
            tuned.CONFLUENT_AIO,
            defaults.CONFLUENT_AIO,
        ),
        Client(
            "aiokafka",
            "aiokafka_client",
            "aiokafka",
            tuned.AIOKAFKA,
            defaults.AIOKAFKA,
            uvloop=True,
        ),
        Client(
            "kafka-python",
            "kafka_python_client",
            "kafka-python",
            tuned.KAFKA_PYTHON,
            defaults.KAFKA_PYTHON,
        ),
        Client(
            "java",
            "producer_performance",
            None,
            tuned.JAVA,
            defaults.JAVA,
            program="benchmarks.producer_performance",
            # The mock cluster refuses its version of ApiVersions in bytes that it takes for a
            # demand to be silent for 20 minutes.
            brokers=("kafka",),
        ),
    )
}
