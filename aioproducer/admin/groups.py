"""Groups: their list, their members, their offsets and lag, their deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from aioproducer.admin.calls import Answers, Calls, listed, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import (
    AlterOffsetsRequest,
    Answer,
    CommittedOffsetsRequest,
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aioproducer.admin.topics import RecordCalls
from aioproducer.admin.values import GroupDescription, GroupListing, PartitionLag
from aioproducer.engine.network.request import Request
from aioproducer.errors import UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition

_PERMISSION: Final = "DESCRIBE for the group"


class GroupCalls:
    """The calls of an Admin that are about groups."""

    def __init__(self, calls: Calls, records: RecordCalls) -> None:
        self._calls = calls
        self._records = records

    async def listed(self, timeout: float | None) -> list[GroupListing]:
        """The groups of all coordinators, by id."""
        client = self._calls.client
        left = self._calls.countdown(timeout)
        found = await client.retry(client.describe, timeout=left(), doing="listing the groups")
        lists = await self._calls.of_each_broker(
            found.brokers,
            ListGroupsRequest,
            "DESCRIBE for the cluster",
            "listing the groups",
            left(),
        )
        groups = {group.group_id: group for _, each in lists for group in each}
        return [groups[group] for group in sorted(groups)]

    async def describe(
        self, groups: tuple[str, ...], timeout: float | None
    ) -> dict[str, GroupDescription]:
        """Groups with their members."""
        outcomes = Outcomes(groups, _group, _PERMISSION, never)

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await self._calls.at_coordinators(outcomes, pending, self._described)

        doing = f"describing {listed(groups, _group)}"
        return await self._calls.settle(outcomes, attempt, doing, timeout)

    async def _described(self, groups: tuple[str, ...], node: Node | None) -> Answers[str]:
        """The answers of a coordinator: first by the classic protocol, then by that of KIP-848."""
        client = self._calls.client
        answers: dict[str, Answer] = dict(await client.request(DescribeGroupsRequest(groups), node))
        others = tuple(
            group
            for group, each in answers.items()
            if each.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        )
        if others:
            with suppress(UnsupportedVersionError):  # a broker before Kafka 3.7 has no such groups
                found = await client.request(DescribeConsumerGroupsRequest(others), node)
                # UNSUPPORTED_VERSION: it knows the request, but its KIP-848 groups are disabled
                answers |= {
                    group: each
                    for group, each in found.items()
                    if each.error_code != ErrorCode.UNSUPPORTED_VERSION
                }
        return {
            group: each if each.error_code else Answer(value=each.value._replace(coordinator=node))
            for group, each in answers.items()
        }

    async def delete(self, groups: tuple[str, ...], timeout: float | None) -> None:
        """Delete groups with their offsets."""
        calls = self._calls
        outcomes = Outcomes(groups, _group, "DELETE for the group", never, changes=True)

        async def ask(some: tuple[str, ...], node: Node | None) -> Answers[str]:
            request = DeleteGroupsRequest(some)
            answers: Answers[str] = await calls.change(outcomes, some, request, node)
            return answers

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await calls.at_coordinators(outcomes, pending, ask)

        await calls.settle(outcomes, attempt, f"deleting {listed(groups, _group)}", timeout)

    # --- offsets ---------------------------------------------------------------------------

    async def lag(
        self, group: str, topics: tuple[str, ...] | None, timeout: float | None
    ) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in the partitions for which it has offsets."""
        left = self._calls.countdown(timeout)
        committed = await self.offsets(group, topics, left())
        ends = await self._records.ends(committed, left())
        return {where: PartitionLag(at.offset, ends[where]) for where, at in committed.items()}

    async def offsets(
        self, group: str, topics: tuple[str, ...] | None, timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group that exists, by partition."""
        left = self._calls.countdown(timeout)
        committed = await self._committed(group, left())
        if not committed:
            await self.describe((group,), left())  # raises if there is no such group
        wanted = None if topics is None else frozenset(topics)
        return {
            where: committed[where]
            for where in sorted(committed)
            if wanted is None or where.topic in wanted
        }

    async def _committed(
        self, group: str, timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        outcomes = Outcomes((group,), _group, _PERMISSION, never)

        async def ask(groups: tuple[str, ...], node: Node | None) -> Answers[str]:
            answers: Answers[str] = await self._calls.client.request(
                CommittedOffsetsRequest(groups[0]), node
            )
            return answers

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await self._calls.at_coordinators(outcomes, pending, ask)

        doing = f"reading the offsets of {_group(group)}"
        found = await self._calls.settle(outcomes, attempt, doing, timeout)
        offsets: dict[TopicPartition, OffsetAndMetadata] = found[group]
        return offsets

    async def alter_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float | None,
    ) -> None:
        """Commit offsets of a group without members."""

        def request(pending: tuple[TopicPartition, ...]) -> Request:
            return AlterOffsetsRequest(group, {where: offsets[where] for where in pending})

        await self._change_offsets(group, offsets, request, "READ", "committing", timeout)

    async def delete_offsets(
        self, group: str, partitions: tuple[TopicPartition, ...], timeout: float | None
    ) -> None:
        """Delete offsets of a group."""

        def request(pending: tuple[TopicPartition, ...]) -> Request:
            return DeleteOffsetsRequest(group, pending)

        await self._change_offsets(group, partitions, request, "DELETE", "deleting", timeout)

    async def _change_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        request: Callable[[tuple[TopicPartition, ...]], Request],
        permission: str,
        doing: str,
        timeout: float | None,
    ) -> None:
        """A change that the coordinator refuses as a whole, or for some of the partitions."""
        calls = self._calls
        each = Outcomes(
            partitions,
            lambda where: f"{_group(group)}, {where}",
            "READ for the topic",
            calls.late_partition,
            changes=True,
        )
        whole = Outcomes(
            (group,) if each.pending else (),
            _group,
            f"{permission} for the group",
            never,
            changes=True,
        )

        async def ask(groups: tuple[str, ...], node: Node | None) -> Answers[str]:
            pending = each.pending
            said: Answer = await calls.change(whole, groups, request(pending), node)
            if not said.error_code:
                each.take(said.value)
                each.check()
            return {group: said}

        async def attempt(pending: tuple[str, ...]) -> Answers[str]:
            return await calls.at_coordinators(whole, pending, ask)

        what = f"{doing} the offsets of {_group(group)}"
        await calls.settle(whole, attempt, what, timeout)
        each.results()


def _group(group: str) -> str:
    return f"group {group!r}"
