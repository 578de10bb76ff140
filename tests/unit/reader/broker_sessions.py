"""A small broker's memory of incremental fetches, after Kafka's ``FetchSession``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.reader.requests import (
    NO_SESSION,
    Fetched,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
)

Found = Mapping[TopicPartition, FetchedPartition]


@dataclass
class Session:
    """What a broker remembers."""

    epoch: int
    partitions: dict[TopicPartition, FetchPartition]
    has_ids: bool
    told: dict[TopicPartition, int] = field(default_factory=dict)
    """The high watermark that the client knows of each partition."""


class BrokerSessions:
    """The sessions of one broker. ``grants``: False as with a full cache."""

    def __init__(self, *, grants: bool = True) -> None:
        self.grants = grants
        self.sessions: dict[int, Session] = {}
        self._ids = count(1)

    def begin(self, request: FetchRequest) -> Sequence[FetchPartition] | ErrorCode:
        """The partitions that a request is about, or why it is about none."""
        place = request.session
        named = (*request.partitions, *request.forgotten)
        assert not request.has_ids or all(each.topic_id for each in named)
        if place.epoch <= 0:
            assert not request.forgotten
            self.sessions.pop(place.id, None)
            return request.partitions
        session = self.sessions.get(place.id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != place.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.has_ids is not request.has_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for each in request.partitions:
            session.partitions[each.where] = each
        for each in request.forgotten:
            assert session.partitions.pop(each.where) is not None
            session.told.pop(each.where, None)
        session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        if not session.partitions:
            del self.sessions[place.id]
            return ()
        return tuple(session.partitions.values())

    def news(self, request: FetchRequest, found: Found) -> Found:
        """The part of ``found`` that the client does not know."""
        session = self.sessions.get(request.session.id)
        if session is None:
            return found
        return {
            where: each
            for where, each in found.items()
            if each.records
            or each.error_code
            or each.preferred_read_replica >= 0
            or session.told.get(where) != each.high_watermark
        }

    def end(self, request: FetchRequest, found: Found) -> Fetched:
        """The response."""
        if request.session.epoch > 0:
            new = self.news(request, found)
            session = self.sessions.get(request.session.id)
            if session is None:
                return Fetched(0, new)
            self._tell(session, new)
            return Fetched(0, new, request.session.id)
        if request.session == NO_SESSION or not self.grants:
            return Fetched(0, found)
        number = next(self._ids)
        partitions = {each.where: each for each in request.partitions}
        self.sessions[number] = Session(1, partitions, request.has_ids)
        self._tell(self.sessions[number], found)
        return Fetched(0, found, number)

    def _tell(self, session: Session, news: Found) -> None:
        for where, each in news.items():
            session.told[where] = -1 if each.error_code else each.high_watermark
            if each.records:
                session.partitions[where] = session.partitions.pop(where)
