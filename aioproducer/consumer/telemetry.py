"""The metrics of a consumer that brokers ask for (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from math import inf
from typing import Any, Final

from aioproducer.consumer.metrics import (
    CLIENT_METRICS,
    FETCH_METRICS,
    NODE_METRICS,
    ConsumerStats,
    coordinator_metrics,
    fetch_metrics,
)
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.telemetry.payload_maker import MetricsSource, PayloadMaker
from aioproducer.engine.telemetry.requester import TelemetryRequester
from aioproducer.engine.telemetry.subscription import MetricGroup, MetricGroups, TelemetryStates
from aioproducer.errors import ClientClosedError, ProducerError
from aioproducer.foundation.runtime.threads import DaemonThreads

_FETCHES: Final = "consumer-fetch-manager"


@cache
def consumer_groups() -> MetricGroups:
    """The groups of a consumer. Those of nodes and of partitions may be long."""
    coordinator = coordinator_metrics(ConsumerStats(), 0, None, 0.0)
    fetches = *(each.name for each in FETCH_METRICS), *fetch_metrics(0, 0, 0, {})
    return {
        "consumer-metrics": MetricGroup("consumer", tuple(each.name for each in CLIENT_METRICS)),
        "consumer-coordinator-metrics": MetricGroup("consumer-coordinator", tuple(coordinator)),
        f"{_FETCHES}-metrics": MetricGroup(_FETCHES, fetches),
        "consumer-node-metrics": MetricGroup(
            "consumer-node",
            tuple(each.name for each in NODE_METRICS),
            lambda node: {"node_id": node},
        ),
        f"{_FETCHES}-partition-metrics": MetricGroup(_FETCHES, ("records-lag",), _partition),
    }


def _partition(where: str) -> Mapping[str, str]:
    topic, _, partition = where.rpartition("-")
    return {"topic": topic, "partition": partition}


def consumer_telemetry(
    client: ClusterClient,
    snapshot: Callable[[], Mapping[str, Any]],
    resource: Callable[[], Mapping[str, str]],
) -> TelemetryRequester:
    """The pushes of a consumer's metrics by ``client``: they end with it.

    ``resource``: the attributes of the consumer.
    """
    threads = DaemonThreads("aioproducer-telemetry", 1)
    end_of_others = client.on_end
    started_ns = client.wall_clock_ns()

    async def new_maker() -> PayloadMaker:
        source = MetricsSource(
            snapshot, consumer_groups(), client.wall_clock_ns, started_ns, resource
        )
        return PayloadMaker(source, threads.run)

    requester = client.attach(
        lambda network, peers, owner, wakeup: TelemetryRequester(
            TelemetryStates(client.random),
            consumer_groups,
            new_maker,
            network,
            peers,
            lambda: client.finishes,
            owner,
            wakeup,
        )
    )

    def end() -> None:
        end_of_others()
        requester.close(ClientClosedError("the Consumer is closed; make a new one"))
        threads.shutdown(cancel_futures=True)

    client.on_end = end
    client.start_task(_connect(client), "aioproducer-telemetry")
    return requester


async def _connect(client: ClusterClient) -> None:
    """Have a connection for pushes: a member without partitions fetches from nobody."""

    async def describe() -> None:
        await client.describe()
        await client.describe()  # of a broker that the bootstrap server has named

    with suppress(ProducerError):
        await client.retry(describe, timeout=inf, doing="connecting for pushes")
