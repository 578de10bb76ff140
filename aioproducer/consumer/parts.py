"""The parts of a consumer: how they are connected, and their last steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from aioproducer.config import ProducerConfig
from aioproducer.config.reader_options import ReaderOptions
from aioproducer.consumer.assigned_partition import Hold
from aioproducer.consumer.assignment import Assignment, AssignmentSettings, Callback
from aioproducer.consumer.commits import Commits
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.group_protocol import GroupProtocol
from aioproducer.consumer.health import Observation
from aioproducer.consumer.member import Member, MemberSurroundings
from aioproducer.consumer.metrics import ConsumerStats, consumer_telemetry
from aioproducer.consumer.options import ConsumerOptions
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.session import SessionTimes
from aioproducer.consumer.subscription import GroupTopics, Subscription
from aioproducer.consumer.work_watch import WorkWatch
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.groups.requests import Membership
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import ModuleLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import is_being_cancelled, leave_alone, new_task
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.record_source import RecordSource

logger = ModuleLogger(__name__)

_LONGEST_STEP: Final = 5.0
"""Seconds that one step may take."""
_ALL_STEPS: Final = 2 * _LONGEST_STEP
_SHORTEST_STEP: Final = 0.5


@dataclass(frozen=True, slots=True)
class ConsumerSetup:
    """The user's request."""

    group_id: str
    config: ProducerConfig
    options: ConsumerOptions
    reading: ReaderOptions
    fetching: FetchSettings
    subscription: Subscription
    commits_itself: Callable[[], bool]
    """False once transactions commit the offsets."""
    callbacks: tuple[Callback | None, Callback | None, Callback | None]
    """For partitions that are assigned, revoked, lost."""
    member: Callable[[MemberSurroundings], Member] | None = None
    """Makes the member; None: the class of its protocol does."""


class ConsumerParts:
    """The parts of one consumer.

    ``refused`` gets a commit's error code when the group continues without the member. ``fail``
    gets an error that the application has to see.
    """

    _cluster_id = ""
    """The id of the last cluster that was followed to."""

    def __init__(
        self,
        setup: ConsumerSetup,
        client: ClusterClient,
        link: CoordinatorLink,
        refused: Callable[[int], bool],
        fail: Callable[[Exception], None],
    ) -> None:
        reading, config = setup.reading, setup.config
        settings = setup.fetching._replace(patience=inf)
        leaders = Leaders(())
        fetcher = Fetcher(
            client,
            (),
            leaders,
            settings,
            lambda topic: self.member.miss_topic(topic),
            lambda topic: self.assignment.recreated(topic),
        )
        stats, topics = _stats(config, client.clock()), _topics(setup, link, fetcher.tell)
        self._clients, self._topics = (client, link), topics
        self.source = RecordSource(client, fetcher, reading.max_batch_bytes, "Consumer")
        self.progress = Progress(self.source.cursor)
        identity, doubt = self._identity, fetcher.doubt_topic
        self.commits = Commits(
            link, self.progress, identity, refused, leaders.topic_id, doubt, stats
        )
        self.assignment = Assignment(
            client,
            link,
            self.source,
            self.progress,
            self.commits,
            identity,
            topics,
            _assignment_settings(setup),
            fail,
            stats,
        )
        client.on_another_cluster = link.client.on_another_cluster = self._leave_cluster
        self._rack = settings.rack
        self.protocol = GroupProtocol(
            setup.options,
            link,
            topics,
            self.assignment,
            stats,
            config.metadata_max_age_ms / 1000,
            settings.rack or None,
            setup.member,
        )
        fetcher.on_take = self.protocol.session.look
        self.source.on_ask = self.progress.tell
        longest = self.protocol.session.times.longest_work
        self.watch = WorkWatch(
            self.source, self.progress, self.protocol, longest, client.clock, setup.group_id
        )
        self.observation = Observation(
            setup.group_id,
            longest,
            client,
            self.protocol,
            self.assignment,
            self.progress,
            self.watch,
            self.source,
            stats,
            topics,
        )
        # A broker that takes long for a push must not hold up heartbeats, so it holds up fetches.
        observed = self.observation.metrics, self._labels
        pushes = config.enable_metrics_push
        self.telemetry = consumer_telemetry(client, *observed) if pushes else None
        """The pushes of metrics; None: they are off."""

    def _leave_cluster(self, cluster_id: str) -> bool:
        """A client has found another cluster: all of them, and the member, go there.

        Returns False if another client has found it before.
        """
        if cluster_id == self._cluster_id:
            return False
        self._cluster_id = cluster_id
        for each in self._clients:
            each.follow(cluster_id)
        self.source.fetcher.leave_cluster()
        self._topics.leave_cluster()
        self.member.leave_cluster()
        self.assignment.leave_cluster()
        return True

    def subscribe(self, subscription: Subscription) -> None:
        """Want other topics from now on."""
        if self._topics.subscribe(subscription):
            self.assignment.resubscribed()
            self.member.resubscribe()

    def _labels(self) -> dict[str, str]:
        """The attributes of a consumer by KIP-714, as far as they are known."""
        member = self._identity()
        labels = {
            "group_id": member.group_id,
            "group_member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_rack": self._rack,
        }
        return {name: value for name, value in labels.items() if value}

    @property
    def member(self) -> Member:
        """The member, which is another one if the group's protocol changes."""
        return self.protocol.member

    def _identity(self) -> Membership:
        return self.member.identity


def _topics(
    setup: ConsumerSetup, link: CoordinatorLink, tell: Callable[[ProducerError], None]
) -> GroupTopics:
    reset = setup.reading.auto_offset_reset
    return GroupTopics(setup.subscription, link.client, setup.group_id, reset, tell)


def _stats(config: ProducerConfig, now: float) -> ConsumerStats:
    window = max(config.metrics_sample_window_ms, 1) / 1000
    return ConsumerStats(num_samples=config.metrics_num_samples, sample_window=window, now=now)


def _assignment_settings(setup: ConsumerSetup) -> AssignmentSettings:
    assigned, revoked, lost = setup.callbacks
    return AssignmentSettings(
        offset_reset=setup.reading.auto_offset_reset,
        isolation=setup.fetching.isolation,
        longest_revocation=SessionTimes.of(setup.options).longest_revocation,
        longest_call=setup.config.max_block_ms / 1000,
        auto_commit=setup.commits_itself,
        on_assigned=assigned,
        on_revoked=revoked,
        on_lost=lost,
    )


class Ending:
    """The end of ``consumer``, from now on. ``link``: asks the coordinator.

    Source: the ``close()`` of Kafka's ``AsyncKafkaConsumer``.
    """

    def __init__(
        self,
        consumer: object,
        client: ClusterClient,
        link: CoordinatorLink,
        parts: ConsumerParts,
    ) -> None:
        self._consumer = consumer
        self._client = client
        self._link = link
        self._parts = parts
        self._until = link.client.clock() + _ALL_STEPS

    async def run(self, tasks: Sequence[asyncio.Task[None]], *, commits: bool) -> None:
        """Take all steps. ``tasks``: those of the consumer, that of the member first.

        The member stays one until the last commit: the group may be in the middle of a rebalance,
        and takes the commit in the generation that the member learns of next.
        """
        parts, assignment = self._parts, self._parts.assignment
        assignment.hold(assignment.owned, Hold.CLOSED)
        if (handlers := assignment.handlers) is not None:
            handlers.drop(assignment.owned)
        assignment.end()
        called = assignment.oldest_call is not None
        if not called:
            parts.protocol.end()
        goodbye = new_task(parts.source.fetcher.end())  # beside the other steps, and a short one
        async with AsyncExitStack() as then:  # the last one first, whatever another one raises
            then.callback(self._end_handlers)
            then.push_async_callback(self._client.close)
            then.push_async_callback(self._link.close)
            if parts.telemetry is not None:
                then.push_async_callback(self._push)
            then.push_async_callback(asyncio.wait, {goodbye})
            then.push_async_callback(self._ask, "leave", self._leave)
            then.push_async_callback(self._stop, tasks[:1])
            if commits:
                commit = partial(parts.commits.commit, assignment.owned, _ALL_STEPS)
                then.push_async_callback(self._ask, "commit", commit, _ALL_STEPS)
            then.push_async_callback(self._step, "tell its callbacks", assignment.tell_of_end)
            if called:  # it ends first, as in Java, where close() can't overtake a callback
                await self._step("wait for a callback", assignment.call_ended)
                parts.protocol.end()
            await self._stop(tasks[1:])

    async def _stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        _, late = await asyncio.wait(tasks, timeout=self._seconds(_LONGEST_STEP))
        for task in late:
            leave_alone(task)
        if late:
            logger.warning("%r: a callback ignores its cancellation", self._consumer)

    def _end_handlers(self) -> None:
        if (handlers := self._parts.assignment.handlers) is not None:
            handlers.close(self._seconds(_LONGEST_STEP))

    async def _leave(self) -> None:
        await self._parts.member.leave(_LONGEST_STEP)

    async def _push(self) -> None:
        if not self._client.has_ended:
            await self._step("push its last metrics", self._client.finish)

    def _seconds(self, longest: float) -> float:
        """The seconds that the next step may take."""
        return min(max(self._until - self._link.client.clock(), _SHORTEST_STEP), longest)

    async def _ask(
        self, doing: str, job: Callable[[], Awaitable[None]], longest: float = _LONGEST_STEP
    ) -> None:
        """Do ``job``, which needs brokers, if the client still lives."""
        if not self._link.client.has_ended:
            await self._step(doing, job, longest)

    async def _step(
        self, doing: str, job: Callable[[], Awaitable[None]], longest: float = _LONGEST_STEP
    ) -> None:
        """Do ``job``; brokers that do not answer, or a late callback, are a line in the log."""
        seconds = self._seconds(longest)

        async def bounded() -> None:
            async with PatientTimeout(seconds):
                await job()

        task = new_task(bounded())
        await asyncio.wait({task}, timeout=seconds + _SHORTEST_STEP)
        why = f"it took longer than {duration(seconds)}"
        try:
            if not task.done():  # a callback ignores its cancellation
                leave_alone(task)
                raise TimeoutError
            task.result()
        except (ProducerError, TimeoutError) as error:
            why = str(error) or why
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            why = "a callback has cancelled its own task"
        else:
            return
        logger.warning("%r could not %s at its end: %s", self._consumer, doing, why)
