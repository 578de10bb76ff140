"""Incremental fetches in the memory of one broker (KIP-227).

Source: Kafka's ``FetchSession``, ``FetchContext`` and ``FetchSessionCacheShard``, without the
eviction of small sessions by larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.messages import Fields

_NO_SESSION: Final = 0
_FULL: Final = 0
_FIRST: Final = 1
_FINAL: Final = -1
_LAST: Final = 2**31 - 1
_FIRST_WITH_TOPIC_IDS: Final = 13
_STALE_SECONDS: Final = 120.0
"""Source: the broker's ``min.incremental.fetch.session.eviction.ms``."""

Key: TypeAlias = tuple[str | UUID, int]
"""A topic by its name or id, and the number of a partition."""


@dataclass
class FetchedRow:
    """A partition to fetch, and what the client knows of it."""

    topic: str | None
    """The topic's name; None: nobody knows the id."""
    topic_id: UUID | None
    """None: the client asks by name."""
    asked: Any
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> Key:
        """Equal for the same partition in two requests."""
        return self.topic_id or self.topic or "", self.asked.partition

    def learn(self, answer: Fields) -> bool:
        """The answer for the partition; True if it is news. Source: ``maybeUpdateResponseData``."""
        news = bool(answer["records"] or answer["error_code"]) or "diverging_epoch" in answer
        if self.high_watermark != answer["high_watermark"]:
            self.high_watermark = answer["high_watermark"]
            news = True
        if self.log_start_offset != answer["log_start_offset"]:
            self.log_start_offset = answer["log_start_offset"]
            news = True
        if answer["error_code"]:
            self.high_watermark = -1
        return news or answer.get("preferred_read_replica", -1) >= 0


@dataclass
class FetchSession:
    """A client's session."""

    id: int
    by_ids: bool
    last_used: float
    epoch: int = _FIRST
    rows: dict[Key, FetchedRow] = field(default_factory=dict)


class Answered(NamedTuple):
    """A partition and the answer for it."""

    row: FetchedRow
    answer: Fields


class FetchContext:
    """One request: without a session, beginning one, or in one."""

    def __init__(
        self,
        sessions: FetchSessions,
        rows: Sequence[FetchedRow],
        session: FetchSession | None = None,
        *,
        begins: bool = False,
        by_ids: bool = False,
    ) -> None:
        self.rows = rows
        """The partitions to read, in their order."""
        self._sessions = sessions
        self._session = session
        self._epoch = 0 if session is None else session.epoch
        self._begins = begins
        self._by_ids = by_ids

    def response(self, answered: Sequence[Answered], now: float) -> Fields:
        """The response with what was read."""
        session = self._session
        number = _NO_SESSION
        if self._begins:
            for row, answer in answered:
                row.learn(answer)
            number = self._sessions.create(self.rows, by_ids=self._by_ids, now=now)
        elif session is not None:
            if session.epoch != self._epoch:  # another request of the session came meanwhile
                return _failed(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id)
            number = session.id
            answered = [each for each in answered if each.row.learn(each.answer)]
            for row, answer in answered:
                if answer["records"]:
                    session.rows[row.key] = session.rows.pop(row.key)
        return {
            "error_code": ErrorCode.NONE,
            "session_id": number,
            "responses": list(_by_topic(answered)),
        }


class FetchSessions:
    """The sessions of one broker. ``slots``: how many it keeps."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._ids = count(1)

    def clear(self) -> None:
        """The broker restarts."""
        self._sessions.clear()

    def begin(
        self, body: Any, version: int, named: Sequence[FetchedRow], now: float
    ) -> FetchContext | Fields:
        """Begin a request about the ``named`` partitions; or the response that refuses it."""
        by_ids = version >= _FIRST_WITH_TOPIC_IDS
        if body.session_epoch in (_FULL, _FINAL):
            self._sessions.pop(body.session_id, None)
            begins = body.session_epoch == _FULL
            return FetchContext(self, named, begins=begins, by_ids=by_ids)
        session = self._sessions.get(body.session_id)
        if session is None:
            return _failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != body.session_epoch:
            return _failed(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_ids != by_ids:
            return _failed(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._update(session, body, named)
        if not session.rows:
            del self._sessions[session.id]
            return FetchContext(self, named)
        session.last_used = now
        session.epoch = _FIRST if session.epoch == _LAST else session.epoch + 1
        return FetchContext(self, tuple(session.rows.values()), session)

    def _update(self, session: FetchSession, body: Any, named: Sequence[FetchedRow]) -> None:
        for row in named:
            known = session.rows.setdefault(row.key, row)
            known.asked = row.asked
        for topic in body.forgotten_topics_data:
            name = topic.topic_id if session.by_ids else topic.topic
            for number in topic.partitions:
                session.rows.pop((name, number), None)

    def create(self, rows: Sequence[FetchedRow], *, by_ids: bool, now: float) -> int:
        """Keep a new session if there is a place for it; 0: there is none."""
        if len(self._sessions) >= self._slots:
            oldest = min(self._sessions.values(), key=lambda each: each.last_used, default=None)
            if oldest is None or now - oldest.last_used <= _STALE_SECONDS:
                return _NO_SESSION
            del self._sessions[oldest.id]
        session = FetchSession(next(self._ids), by_ids, now)
        session.rows.update({row.key: row for row in rows})
        self._sessions[session.id] = session
        return session.id


def _failed(code: ErrorCode, session_id: int = _NO_SESSION) -> Fields:
    return {"error_code": code, "session_id": session_id, "responses": []}


def _by_topic(answered: Sequence[Answered]) -> Iterator[Fields]:
    """The answers, with neighbours of one topic together. Source: ``FetchResponse.toMessage``."""
    topic: dict[str, Any] | None = None
    for row, answer in answered:
        found = {"topic": row.topic if row.topic_id is None else "", "topic_id": row.topic_id}
        if topic is None or (topic["topic"], topic["topic_id"]) != tuple(found.values()):
            if topic is not None:
                yield topic
            topic = {**found, "partitions": []}
        topic["partitions"].append(answer)
    if topic is not None:
        yield topic
