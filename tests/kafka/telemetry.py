"""A broker whose metrics reporter writes the telemetry of clients into files (KIP-714)."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.telemetry.subscription import (
    GetTelemetrySubscriptionsRequest,
    Subscription,
    producer_groups,
    selected,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.waiting import until
from tests.unit.telemetry.snapshots import Point, points

JAVA = Path(__file__).with_name("java")
_REPORTER = "TelemetryFiles"
_CLIENT_METRICS = 16
"""Kafka's number of the resource (``ConfigResource.Type``)."""


def java_id(instance_id: UUID) -> str:
    """The id in Kafka's own form."""
    return base64.urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")


class Push(NamedTuple):
    """A push that the broker has taken."""

    last: bool
    """The client has named it the last one."""
    client_id: str
    points: list[Point]
    at: float
    """Seconds since the epoch, by the file system."""

    def value(self, name: str, **attributes: str) -> float:
        """The value of the only such data point."""
        (found,) = [p for p in self.points if (p.name, p.attributes) == (name, attributes)]
        return found.value


@dataclass(frozen=True)
class _Subscribe:
    """Set the configuration of a subscription."""

    client_id: str
    metrics: str
    interval_ms: int
    api: Api = Api.INCREMENTAL_ALTER_CONFIGS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        schema = request_schema(self.api)
        values = {
            "metrics": self.metrics,
            "interval.ms": str(self.interval_ms),
            "match": f"client_id={self.client_id}",
        }
        configs = tuple(
            schema.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in values.items()
        )
        resource = schema.AlterConfigsResource(
            resource_type=_CLIENT_METRICS, resource_name=self.client_id, configs=configs
        )
        request = schema.IncrementalAlterConfigsRequest(resources=(resource,))
        return encoded(self.api, version, request)

    def read(self, response: Any) -> tuple[int, str | None]:
        (found,) = response.responses
        return int(found.error_code), found.error_message


@dataclass(frozen=True)
class TelemetryKafka:
    """One broker, and the pushes that it has taken."""

    cluster: KafkaCluster
    files: Path

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    async def subscribe(self, client_id: str, metrics: str, interval_ms: int) -> None:
        """Ask the clients with this id for the metrics with these prefixes.

        Returns when the broker tells it to such a client.
        """
        change = _Subscribe(client_id, metrics, interval_ms)
        config = ProducerConfig(bootstrap_servers=self.servers)
        client = ClusterClient(config, client_id, "Client")
        await client.start()

        async def is_told() -> bool:
            found = await client.request(GetTelemetrySubscriptionsRequest(None))
            subscription: Subscription = found.subscription
            wanted = selected(metrics.split(","), producer_groups()) if metrics else frozenset()
            return (subscription.selection, subscription.interval) == (wanted, interval_ms / 1000)

        try:
            assert await client.request(change) == (0, None)
            await until(is_told, "the subscription")
        finally:
            await client.close()

    def pushes(self, instance_id: UUID | str) -> list[Push]:
        """The pushes of a client, in their order."""
        wanted = java_id(instance_id) if isinstance(instance_id, UUID) else instance_id
        found = []
        for path in sorted(self.files.glob("[!.]*")):
            _, instance, last, client_id = path.name.split(",", 3)
            if instance == wanted:
                data = points(path.read_bytes())
                found.append(Push(last == "last", client_id, data, path.stat().st_mtime))
        return found

    async def has_pushes(self, instance_id: UUID, count: int) -> list[Push]:
        """The pushes of a client, once there are so many."""
        await until(lambda: len(self.pushes(instance_id)) >= count, f"{count} pushes")
        return self.pushes(instance_id)


@contextmanager
def telemetry_kafka(distribution: KafkaDistribution, folder: Path) -> Iterator[TelemetryKafka]:
    """Compile the reporter against the broker's own jars, and start a broker with it."""
    classes, files = folder / "classes", folder / "pushes"
    files.mkdir()
    compiled = subprocess.run(
        [
            *(distribution.java.executable, "-m", "jdk.compiler/com.sun.tools.javac.Main"),
            *("-proc:none", "-cp", distribution.classpath, "-d", str(classes)),
            str(JAVA / f"{_REPORTER}.java"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    config = {"metric.reporters": _REPORTER, "telemetry.files": files}
    with KafkaCluster(config=config, class_path=[str(classes)]) as cluster:
        yield TelemetryKafka(cluster, files)
