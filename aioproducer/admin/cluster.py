"""The description of a cluster."""

from __future__ import annotations

from aioproducer.admin.calls import Answers, Calls, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import Answer, ApiVersionsRequest
from aioproducer.admin.values import BrokerDescription, ClusterDescription
from aioproducer.engine.client import describe_request as described
from aioproducer.model import Node


class ClusterCalls:
    """The calls of an Admin that are about the cluster."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe(self, versions: bool, timeout: float | None) -> ClusterDescription:
        """The brokers and features; with ``versions`` each broker is asked for its versions."""
        client = self._calls.client
        left = self._calls.countdown(timeout)
        found = await client.retry(client.describe, timeout=left(), doing="describing the cluster")
        brokers = [BrokerDescription(*found.brokers[each]) for each in sorted(found.brokers)]
        if versions:
            ranges = await self._versions(found, left())
            brokers = [each._replace(versions=ranges[each.id]) for each in brokers]
        return ClusterDescription(
            found.cluster_id, found.controller, tuple(brokers), client.features
        )

    async def _versions(
        self, found: described.ClusterDescription, timeout: float
    ) -> dict[int, dict[str, tuple[int, int]]]:
        outcomes = Outcomes(found.brokers, lambda each: f"broker {each}", "", never)

        async def ask(brokers: tuple[int, ...], node: Node | None) -> Answers[int]:
            answer: Answer = await self._calls.client.request(ApiVersionsRequest(), node)
            return dict.fromkeys(brokers, answer)

        async def attempt(pending: tuple[int, ...]) -> Answers[int]:
            places = [(found.brokers[broker], (broker,)) for broker in pending]
            return await self._calls.at_nodes(outcomes, places, ask)

        return await self._calls.settle(outcomes, attempt, "asking brokers for versions", timeout)
