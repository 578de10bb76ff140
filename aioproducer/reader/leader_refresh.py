"""The refreshes of a reader's leaders."""

from __future__ import annotations

from collections.abc import Callable

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import KafkaError, ProducerError, TopicRecreatedError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.read_ahead import ReadAhead

logger = plain_logger(__name__)


class LeaderRefresh:
    """Asks for the leaders again when they are old, or when an error says that they moved.

    Times are seconds. ``max_age``: refresh leaders that are so old. ``patience``: the time for
    which a topic may be unknown before its partitions fail. ``wake`` is called after a refresh,
    ``missed`` when the brokers do not know a topic. ``recreated`` is called when a topic was
    deleted and created again, and returns True if it has begun its partitions anew.
    """

    def __init__(
        self,
        client: ClusterClient,
        leaders: Leaders,
        read_ahead: ReadAhead,
        max_age: float,
        patience: float,
        wake: Callable[[], None],
        missed: Callable[[str], None],
        recreated: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._leaders = leaders
        self._read_ahead = read_ahead
        self._max_age = max_age
        self._patience = patience
        self._wake = wake
        self._missed = missed
        self._recreated = recreated
        self._backoff = client.backoff()
        self._refreshed = client.clock()
        self._stale = False
        self._under_way = False
        self._failures = 0
        self._not_before = 0.0
        self._unknown: dict[str, float] = {}
        """The topics that brokers do not describe, and since when."""

    def request(self) -> None:
        """Refresh as soon as the backoff allows."""
        self._stale = True

    def step(self, now: float) -> float | None:
        """Begin a refresh that is due. Returns the time of the next one; None: one is under way."""
        if self._under_way:
            return None
        due = self._not_before if self._stale else self._refreshed + self._max_age
        if due > now:
            return due
        self._under_way = True
        self._client.start_task(self._refresh(), "aioproducer-refresh")
        return None

    async def _refresh(self) -> None:
        self._stale = False
        failure: ProducerError | None = None
        errors: dict[str, ProducerError] = {}
        try:
            description = await self._client.describe(self._leaders.topics)
            states = self._read_ahead.partitions.values()
            failing = {state.where.topic for state in states if state.failures}
            taking = self._leaders.taking(description, self._client.clock(), failing)
            errors = await in_turns(taking)
            self._begin_anew(errors)
        except ProducerError as error:
            failure = error
        if self._client.has_ended:
            return
        now = self._client.clock()
        self._under_way = False
        self._refreshed = now
        requested, self._stale = self._stale, failure is not None or self._leaders.is_doubtful
        for state in self._read_ahead.partitions.values():
            found = failure or errors.get(state.where.topic)
            if found is None:
                self._unknown.pop(state.where.topic, None)
            elif state.wants_records and self._is_final(state.where.topic, found, now):
                self._read_ahead.fail(state, found)
        self._failures = self._failures + 1 if self._stale else 0
        self._stale = self._stale or requested
        self._not_before = now + self._backoff.delay(max(self._failures, 1))
        self._wake()

    def _begin_anew(self, errors: dict[str, ProducerError]) -> None:
        for topic, error in list(errors.items()):
            if isinstance(error, TopicRecreatedError) and self._recreated(topic):
                self._leaders.renew(topic)
                del errors[topic]

    def _is_final(self, topic: str, error: ProducerError, now: float) -> bool:
        """True if it is no use to wait for ``topic``; else another refresh is requested."""
        if not self._client.may_pass(error):
            return True
        logger.debug("Leaders of topic %r are asked for again: %s", topic, error)
        self._stale = True
        if not isinstance(error, KafkaError):
            return False
        self._missed(topic)
        return now - self._unknown.setdefault(topic, now) > self._patience
