"""The cluster: its description, and the configurations of brokers and topics."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.admin.calls import Answers, Calls, listed
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import (
    AlterConfigsRequest,
    ApiVersionsRequest,
    DescribeConfigsRequest,
)
from aioproducer.admin.values import (
    BrokerDescription,
    CheckedChange,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
)
from aioproducer.model import Node


class ConfigCalls:
    """The calls of an Admin that are about configurations."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe(
        self,
        resources: tuple[ConfigResource, ...],
        names: tuple[str, ...] | None,
        timeout: float | None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configurations of topics and brokers; ``names``: the wanted values, None for all."""
        permission = "DESCRIBE_CONFIGS for the topic, or for the cluster"
        outcomes = Outcomes(resources, _resource, permission, self._late)

        async def ask(
            some: tuple[ConfigResource, ...], node: Node | None
        ) -> Answers[ConfigResource]:
            request = DescribeConfigsRequest(some, names)
            answers: Answers[ConfigResource] = await self._calls.client.request(request, node)
            return answers

        async def attempt(pending: tuple[ConfigResource, ...]) -> Answers[ConfigResource]:
            return await self._calls.at_owners(outcomes, pending, ask)

        doing = f"describing the configuration of {listed(resources, _resource)}"
        return await self._calls.settle(outcomes, attempt, doing, timeout)

    async def alter(
        self,
        changes: Mapping[ConfigResource, Mapping[str, CheckedChange]],
        validate_only: bool,
        timeout: float | None,
    ) -> None:
        """Change some values of configurations; the others stay."""
        permission = "ALTER_CONFIGS for the topic, or for the cluster"
        outcomes = Outcomes(changes, _resource, permission, self._late, changes=not validate_only)

        async def ask(
            some: tuple[ConfigResource, ...], node: Node | None
        ) -> Answers[ConfigResource]:
            request = AlterConfigsRequest({each: changes[each] for each in some}, validate_only)
            answers: Answers[ConfigResource] = await self._calls.change(
                outcomes, some, request, node
            )
            return answers

        async def attempt(pending: tuple[ConfigResource, ...]) -> Answers[ConfigResource]:
            return await self._calls.at_owners(outcomes, pending, ask)

        doing = f"changing the configuration of {listed(changes, _resource)}"
        await self._calls.settle(outcomes, attempt, doing, timeout)

    def _late(self, resource: ConfigResource) -> bool:
        return isinstance(resource, str) and self._calls.late(resource)


def _resource(resource: ConfigResource) -> str:
    return f"topic {resource!r}" if isinstance(resource, str) else f"broker {resource}"


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
            answers = await self._calls.of_each_broker(
                sorted(found.brokers), ApiVersionsRequest, "", "asking brokers for versions", left()
            )
            brokers = [BrokerDescription(*node, versions=ranges) for node, ranges in answers]
        return ClusterDescription(
            found.cluster_id, found.controller, tuple(brokers), client.features
        )
