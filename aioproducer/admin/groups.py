"""Groups: their list, their members, their lag."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from aioproducer.admin.calls import Answers, Calls, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import (
    Answer,
    CommittedOffsetsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aioproducer.admin.requests.describe_groups import GROUP_ID_NOT_FOUND
from aioproducer.admin.values import GroupDescription, GroupListing, PartitionLag
from aioproducer.engine.client.list_offsets import LATEST, FoundOffset, ListOffsetsRequest
from aioproducer.errors import UnsupportedVersionError
from aioproducer.model import Node, TopicPartition

_PERMISSION: Final = "DESCRIBE for the group"
_UNSUPPORTED_VERSION: Final = 35
"""The coordinator knows the request of KIP-848, and does without its groups."""


class GroupCalls:
    """The calls of an Admin that are about groups."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(self, timeout: float | None) -> list[GroupListing]:
        """The groups of all coordinators, by id."""
        client = self._calls.client
        left = self._calls.countdown(timeout)
        found = await client.retry(client.describe, timeout=left(), doing="listing the groups")
        outcomes = Outcomes(
            found.brokers, lambda broker: f"broker {broker}", "DESCRIBE for the cluster", never
        )

        async def ask(brokers: tuple[int, ...], node: Node | None) -> Answers[int]:
            answer: Answer = await client.request(ListGroupsRequest(), node)
            return dict.fromkeys(brokers, answer)

        async def attempt(pending: tuple[int, ...]) -> Answers[int]:
            nodes = (await client.describe()).brokers
            # A broker that has left the cluster coordinates no group any more.
            outcomes.take({each: Answer(value=()) for each in pending if each not in nodes})
            places = [(nodes[each], (each,)) for each in pending if each in nodes]
            return await self._calls.at_nodes(outcomes, places, ask)

        lists = await self._calls.settle(outcomes, attempt, "listing the groups", left())
        groups = {group.group_id: group for each in lists.values() for group in each}
        return [groups[group] for group in sorted(groups)]

    async def describe(
        self, groups: tuple[str, ...], timeout: float | None
    ) -> dict[str, GroupDescription]:
        """Groups with their members."""
        outcomes = Outcomes(groups, _group, _PERMISSION, never)

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await self._calls.at_coordinators(outcomes, pending, self._described)

        doing = f"describing {_listed(groups)}"
        return await self._calls.settle(outcomes, attempt, doing, timeout)

    async def _described(self, groups: tuple[str, ...], node: Node | None) -> Answers[str]:
        """The answers of a coordinator: first by the classic protocol, then by that of KIP-848."""
        client = self._calls.client
        answers: dict[str, Answer] = dict(await client.request(DescribeGroupsRequest(groups), node))
        others = tuple(
            group for group, each in answers.items() if each.error_code == GROUP_ID_NOT_FOUND
        )
        if others:
            with suppress(UnsupportedVersionError):  # a broker before Kafka 3.7 has no such groups
                found = await client.request(DescribeConsumerGroupsRequest(others), node)
                answers |= {
                    group: each
                    for group, each in found.items()
                    if each.error_code != _UNSUPPORTED_VERSION
                }
        return answers

    async def lag(
        self, group: str, topics: tuple[str, ...] | None, timeout: float | None
    ) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in the partitions for which it has offsets."""
        left = self._calls.countdown(timeout)
        committed = await self._committed(group, left())
        if not committed:
            await self.describe((group,), left())  # raises if there is no such group
        wanted = sorted(where for where in committed if topics is None or where.topic in topics)
        ends = await self._ends(tuple(wanted), left())
        return {where: PartitionLag(committed[where], ends[where]) for where in wanted}

    async def _committed(self, group: str, timeout: float | None) -> dict[TopicPartition, int]:
        outcomes = Outcomes((group,), _group, _PERMISSION, never)

        async def ask(groups: tuple[str, ...], node: Node | None) -> Answers[str]:
            answers: Answers[str] = await self._calls.client.request(
                CommittedOffsetsRequest(groups[0]), node
            )
            return answers

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await self._calls.at_coordinators(outcomes, pending, ask)

        doing = f"reading the offsets of {_listed((group,))}"
        found = await self._calls.settle(outcomes, attempt, doing, timeout)
        offsets: dict[TopicPartition, int] = found[group]
        return offsets

    async def _ends(
        self, partitions: tuple[TopicPartition, ...], timeout: float | None
    ) -> dict[TopicPartition, int | None]:
        """The ends of partitions; None for those that do not exist any more."""
        outcomes = Outcomes(partitions, str, "DESCRIBE for the topic", never)

        async def ask(
            some: tuple[TopicPartition, ...], node: Node | None
        ) -> Answers[TopicPartition]:
            request = ListOffsetsRequest(dict.fromkeys(some, LATEST))
            found: dict[TopicPartition, FoundOffset] = await self._calls.client.request(
                request, node
            )
            return {
                where: Answer(each.error_code, None, each.offset) for where, each in found.items()
            }

        async def attempt(pending: tuple[TopicPartition, ...]) -> Answers[TopicPartition]:
            return await self._calls.at_leaders(outcomes, pending, ask, missing=Answer(value=None))

        return await self._calls.settle(
            outcomes, attempt, "reading the ends of partitions", timeout
        )


def _group(group: str) -> str:
    return f"group {group!r}"


def _listed(groups: tuple[str, ...]) -> str:
    first = ", ".join(map(repr, groups[:5]))
    more = f" and {len(groups) - 5} more" if len(groups) > 5 else ""
    return f"group{'' if len(groups) == 1 else 's'} {first}{more}"
