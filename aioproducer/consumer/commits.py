"""The commits of a member: what the application is done with, one commit at a time.

With ``auto_commit``, acknowledged records are committed every ``auto_commit_interval_ms``
(:meth:`Commits.commit_each`), before partitions are revoked (:meth:`Assignment.revoked`), and at
the end of the consumer (:meth:`Ending.run`); otherwise when the application asks for it.

The reactions to their errors are in ``engine/groups/requests.py``, with those of other requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import TypeAlias
from uuid import UUID

from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.consumer.progress import Progress
from aioproducer.engine.client.offset_lookup import portions
from aioproducer.engine.groups.requests import LOST, NEW_PARTITION_GRACE, Membership, Reaction
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    ProducerError,
    ProducerTimeoutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.logs import ModuleLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.reader.partition import PartitionState

logger = ModuleLogger(__name__)

Offsets: TypeAlias = tuple[
    dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, PartitionState]
]
"""What to commit, and the states of the partitions that are this member's."""


class Commits:
    """Commits offsets as the present ``member``. Times are seconds.

    ``refused`` gets the error code when the group continues without the member; False: it may not.
    ``topic_id`` returns the id of the topic that is read by that name; None: it is unknown.
    ``doubt_topic`` is called when the coordinator does not know such an id: another topic may have
    the name now.
    Source: Kafka's ``ConsumerCoordinator`` and ``CommitRequestManager``.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        progress: Progress,
        member: Callable[[], Membership],
        refused: Callable[[int], bool],
        topic_id: Callable[[str], UUID | None],
        doubt_topic: Callable[[TopicPartition], None],
        stats: ConsumerStats,
    ) -> None:
        self._link = link
        self._progress = progress
        self._member = member
        self._refused = refused
        self._topic_id = topic_id
        self._doubt_topic = doubt_topic
        self._turn = asyncio.Lock()
        """Otherwise commits could overtake each other, and the older offset would count."""
        self._stats = stats

    async def commit(self, partitions: Iterable[TopicPartition], timeout: float) -> None:
        """Commit what is acknowledged of ``partitions``.

        Raises the error of a partition, when the others are committed, or of the whole group.
        """
        listed = [*partitions]

        async def acknowledged() -> Offsets:
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            owned: dict[TopicPartition, PartitionState] = {}
            for portion in portions(listed):
                some = self._progress.to_commit(portion)
                found |= some
                owned |= self._progress.states(some)
                if len(portion) < len(listed):
                    await asyncio.sleep(0)
            return found, owned

        await self._commit(acknowledged, timeout, explicit=False)

    async def commit_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> None:
        """Commit ``offsets``. Raises as :meth:`commit` does.

        In a rebalance, offsets of partitions that stay are committed in the new generation. Those
        of partitions that go are refused: their new owner may have read on already.
        """

        async def given() -> Offsets:
            return dict(offsets), self._progress.states(offsets)

        await self._commit(given, timeout, explicit=True)

    async def commit_if_possible(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> None:
        """Commit what is acknowledged; an error is a line in the log.

        Nothing is lost with the offsets of a topic that was deleted.
        """
        try:
            await self.commit(partitions, timeout)
        except ProducerError as error:
            is_gone = isinstance(error, (UnknownTopicIdError, UnknownTopicOrPartitionError))
            logger.repeated(
                logging.INFO if is_gone else logging.WARNING,
                "commit",
                "Group %r: a commit failed: %s",
                self._link.group_id,
                error,
                error=error,
            )

    async def commit_each(
        self,
        interval: float,
        partitions: Callable[[], Iterable[TopicPartition]],
        timeout: float,
    ) -> None:
        """Commit what is acknowledged of ``partitions`` every ``interval`` seconds."""
        while True:
            await asyncio.sleep(interval)
            await self.commit_if_possible(partitions(), timeout)

    async def settled(self) -> None:
        """Wait until no commit is under way: its repetition could overtake a transaction's."""
        async with self._turn:
            pass

    async def committed(
        self, partitions: frozenset[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's offsets; None: there is none."""

        async def attempt() -> Mapping[TopicPartition, OffsetAndMetadata | None]:
            # Not as the member: in a rebalance it may not know its epoch yet (KIP-848).
            found = await self._link.fetch_offsets(Membership(self._link.group_id), partitions)
            if found.error_code:
                what = f"the offsets of group {self._link.group_id!r}"
                raise error_about(what, found.error_code, Api.OFFSET_FETCH)
            return found.offsets

        doing = f"reading the offsets of group {self._link.group_id!r}"
        return dict(await self._link.client.retry(attempt, timeout=timeout, doing=doing))

    async def _commit(
        self,
        offsets: Callable[[], Awaitable[Offsets]],
        timeout: float,
        *,
        explicit: bool,
    ) -> None:
        attempts = _Attempts(f"committing the offsets of group {self._link.group_id!r}")
        try:
            async with PatientTimeout(timeout), self._turn:
                await self._settle(*await offsets(), attempts, explicit=explicit)
        except TimeoutError as error:
            if isinstance(error, ProducerError):
                raise
            self._stats.at(self._link.client.clock()).failed_commits += 1
            reason = attempts.last or self._link.client.why_no_answer()
            raise ProducerTimeoutError(
                f"{attempts.doing} took longer than {duration(timeout)}: {reason}"
            ) from attempts.last
        except ProducerError:
            self._stats.at(self._link.client.clock()).failed_commits += 1
            raise

    async def _settle(
        self,
        left: dict[TopicPartition, OffsetAndMetadata],
        owned: dict[TopicPartition, PartitionState],
        attempts: _Attempts,
        *,
        explicit: bool,
    ) -> None:
        """Commit ``left``, again and again, until each offset is taken or refused for good.

        ``owned``: the states of those that are this member's.
        """
        refusals: dict[TopicPartition, int] = {}
        grace_ends = self._link.client.clock() + NEW_PARTITION_GRACE
        backoff = self._link.client.backoff()
        for failures in count(1):
            began = self._link.client.clock()
            passes: ProducerError | None = None
            answered = False
            try:
                for portion in portions([*left]):
                    lost = self._take_losses(portion, owned)
                    for where in lost:
                        del left[where]
                    if explicit:
                        refusals |= dict.fromkeys(lost, ErrorCode.ILLEGAL_GENERATION)
                    asked = {where: left[where] for where in portion if where in left}
                    if not asked:
                        continue
                    member = self._member()
                    codes = await self._link.commit(member, asked, self._ids_of(asked))
                    answered = True
                    has_grace = self._link.client.clock() < grace_ends
                    found = self._take(codes, asked, refusals, member, owned, has_grace)
                    passes = found or passes
                    for where in portion:
                        if where not in asked:
                            left.pop(where, None)
            except ProducerError as error:
                if not self._link.may_pass(error):
                    raise
                attempts.last = error
            else:
                attempts.last = passes
                if answered and passes is None:
                    now = self._link.client.clock()
                    self._stats.at(now).commits.add(now - began)
            if not left:
                break
            await asyncio.sleep(backoff.delay(failures))
        for where, code in refusals.items():
            raise self._error(where, code)

    def _take_losses(
        self, portion: Iterable[TopicPartition], owned: dict[TopicPartition, PartitionState]
    ) -> list[TopicPartition]:
        """Take lost partitions out of ``owned``, even those that came back, and return them."""
        present = self._progress.states(portion)
        lost = [each for each in portion if each in owned and present.get(each) is not owned[each]]
        for where in lost:
            del owned[where]
        return lost

    def _ids_of(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        topics = {where.topic for where in partitions}
        return {topic: found for topic in topics if (found := self._topic_id(topic)) is not None}

    def _take(
        self,
        codes: dict[TopicPartition, int],
        left: dict[TopicPartition, OffsetAndMetadata],
        refusals: dict[TopicPartition, int],
        member: Membership,
        owned: Mapping[TopicPartition, PartitionState],
        has_grace: bool,
    ) -> ProducerError | None:
        """Take the answer to a commit of ``left``; returns an error that may pass.

        ``has_grace``: a partition that is fetched without an error may be new to the coordinator.
        """
        passes = None
        for where, offset in list(left.items()):
            code = codes[where]
            is_served = code != 0 and has_grace and where in owned and not owned[where].failures
            reaction = self._link.react(code, is_served=is_served)
            if reaction in LOST and member == self._member():
                lost = self._refused(code)
                if lost or where not in owned:
                    raise self._error(where, code)
            if reaction is Reaction.DONE:
                self._progress.committed(where, offset.offset)
                del left[where]
            elif reaction is Reaction.FAIL:
                if code == ErrorCode.UNKNOWN_TOPIC_ID:
                    self._doubt_topic(where)
                refusals[where] = code
                del left[where]
            else:
                passes = self._error(where, code)
        return passes

    def _error(self, where: TopicPartition, code: int) -> ProducerError:
        what = f"the offset of {where} in group {self._link.group_id!r}"
        return error_about(what, code, Api.OFFSET_COMMIT)


class _Attempts:
    """The current work, and its last temporary error."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.last: ProducerError | None = None
