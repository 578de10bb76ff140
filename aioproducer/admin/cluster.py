"""The cluster: its description, and the configurations of brokers and topics."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.admin.calls import Answers, AskNode, Calls, Place, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import (
    AlterConfigsRequest,
    Answer,
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
from aioproducer.engine.client import requests as described
from aioproducer.errors.broker import ErrorCode
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
            return await self._at_owners(outcomes, pending, ask)

        doing = f"describing the configuration of {_listed(resources)}"
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
            return await self._at_owners(outcomes, pending, ask)

        doing = f"changing the configuration of {_listed(tuple(changes))}"
        await self._calls.settle(outcomes, attempt, doing, timeout)

    def _late(self, resource: ConfigResource) -> bool:
        return isinstance(resource, str) and self._calls.late(resource)

    async def _at_owners(
        self,
        outcomes: Outcomes[ConfigResource],
        resources: tuple[ConfigResource, ...],
        ask: AskNode[ConfigResource],
    ) -> Answers[ConfigResource]:
        """Ask each broker about its own configuration, and any broker about topics."""
        topics = [each for each in resources if isinstance(each, str)]
        brokers = [each for each in resources if not isinstance(each, str)]
        places: list[Place[ConfigResource]] = [(None, topics)] if topics else []
        if brokers:
            nodes = (await self._calls.client.describe(())).brokers
            places += [(nodes[each], (each,)) for each in brokers if each in nodes]
            there = f"the cluster currently has the brokers {sorted(nodes)}"
            unknown = Answer(ErrorCode.BROKER_NOT_AVAILABLE, there)
            outcomes.take({each: unknown for each in brokers if each not in nodes})
        return await self._calls.at_nodes(outcomes, places, ask)


def _resource(resource: ConfigResource) -> str:
    return f"topic {resource!r}" if isinstance(resource, str) else f"broker {resource}"


def _listed(resources: tuple[ConfigResource, ...]) -> str:
    first = ", ".join(map(_resource, resources[:5]))
    return f"{first} and {len(resources) - 5} more" if len(resources) > 5 else first


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
