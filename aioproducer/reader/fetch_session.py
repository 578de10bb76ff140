"""The session of incremental fetches with one broker (KIP-227). No I/O.

A broker that grants a session remembers the partitions and offsets of the last fetch. The next one
names only those that have changed, and the response has only those with something new.

Source: Kafka's ``FetchSessionHandler``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.reader.fetch_request import Fetched, FetchPartition, SessionPlace

_MOST_NAMED: Final = 2_000
"""Partitions that a request names at most, if the broker grants sessions. Each takes microseconds
to write, and to read in the response, and the event loop waits for the whole."""
_NO_ID: Final = 0
_FULL: Final = 0
"""The epoch of a request that names all partitions, and asks for a new session."""
_FINAL: Final = -1
"""The epoch of a request after which the broker forgets the session."""
_FIRST: Final = 1
_LAST: Final = 2**31 - 1
_OF_SESSIONS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)


class Turn(NamedTuple):
    """The part of a session in one request."""

    place: SessionPlace
    named: tuple[FetchPartition, ...]
    """The partitions that the broker does not know so yet."""
    forgotten: tuple[FetchPartition, ...]
    has_ids: bool = True
    """False if a topic of the session has no id: all are named."""
    has_more: bool = False
    """True if the next request names more partitions: this one need not wait for records."""

    @property
    def is_full(self) -> bool:
        """True if the request begins a session."""
        return self.place.epoch == _FULL


class FetchSession:
    """The partitions to fetch from a broker, and those that the broker knows.

    Between :meth:`next_turn` and its end by :meth:`take` or :meth:`fail` no other turn begins.
    """

    def __init__(self) -> None:
        self._place = SessionPlace(_NO_ID, _FULL)
        self._is_over = False
        """True if the next request is a full one, wherever the broker has got to."""
        self._is_granted = True
        """False if the broker kept no session last time, so that a full request names all."""
        self._wanted: dict[TopicPartition, FetchPartition] = {}
        """In the order of full requests. One whose offset has changed goes to the end, as a broker
        moves one whose records it has sent."""
        self._known: dict[TopicPartition, FetchPartition | None] = {}
        """The last request's values of the partitions that have changed since; None: it had not
        named the partition."""
        self._without_id = 0
        """The wanted partitions whose topic has no id."""
        self._has_ids = True
        """True if the broker's session has ids. It has the ids of all topics, or of none."""
        self._topics: dict[UUID, str] = {}
        self.topics: Mapping[UUID, str] = MappingProxyType(self._topics)
        """The names of the topics that were named by their ids."""

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._wanted)

    def want(self, partition: FetchPartition) -> None:
        """Fetch a partition in the next request, instead of how it was fetched so far."""
        where = partition.where
        before = self._wanted.get(where)
        if before == partition:
            return
        self._known.setdefault(where, before)
        self._drop(where)
        self._wanted[where] = partition
        self._without_id += partition.topic_id is None
        known = self._known[where]
        if known is not None and known.owner != partition.owner:
            self.renew()

    def leave(self, where: TopicPartition) -> None:
        """Fetch a partition no longer."""
        before = self._drop(where)
        if before is not None:
            self._known.setdefault(where, before)

    def _drop(self, where: TopicPartition) -> FetchPartition | None:
        dropped = self._wanted.pop(where, None)
        self._without_id -= dropped is not None and dropped.topic_id is None
        return dropped

    def said(self, where: TopicPartition) -> FetchPartition | None:
        """The broker's knowledge of a partition after the last request; None: nothing."""
        return self._known[where] if where in self._known else self._wanted.get(where)

    def renew(self) -> None:
        """Name all partitions in the next request; the broker drops the session that it has."""
        self._is_over = True

    def next_turn(self) -> Turn:
        """The part of the session in the next request.

        If the first topic without an id came, or the last one went, a new session begins.
        """
        has_ids = not self._without_id
        if self._is_over or has_ids is not self._has_ids:
            self._place = SessionPlace(self._place.id, _FULL)
            self._is_over = False
        self._has_ids = has_ids
        if self._place.epoch == _FULL:
            self._topics.clear()
            self._known = dict.fromkeys(self._wanted)
        named, forgotten = self._take_changes()
        for each in named:
            if each.topic_id is not None:
                self._topics[each.topic_id] = each.where.topic
        return Turn(self._place, named, forgotten, has_ids, bool(self._known))

    def _take_changes(self) -> tuple[tuple[FetchPartition, ...], tuple[FetchPartition, ...]]:
        """The first changes, or all."""
        named, forgotten = [], []
        most = _MOST_NAMED if self._is_granted else len(self._known)
        taken = [*islice(self._known.items(), most)]
        for where, known in taken:
            del self._known[where]
            wanted = self._wanted.get(where)
            if wanted is None:
                if known is not None:
                    forgotten.append(known)
            elif wanted != known:
                named.append(wanted)
        return tuple(named), tuple(forgotten)

    def take(self, turn: Turn, fetched: Fetched) -> bool:
        """Take the end of ``turn``. False: the session is over, and a full request asks the same.

        A response to a full request is taken in any case: there was no session to be over.
        """
        if fetched.error_code:
            lost = fetched.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._place = SessionPlace(_NO_ID if lost else turn.place.id, _FULL)
            return turn.is_full or fetched.error_code not in _OF_SESSIONS
        self._is_granted = fetched.session_id != _NO_ID
        epoch = _FIRST if turn.place.epoch == _LAST else turn.place.epoch + 1
        if fetched.session_id == _NO_ID or (fetched.is_withheld and turn.named):
            epoch = _FULL
        self._place = SessionPlace(fetched.session_id, epoch)
        return True

    @property
    def farewell(self) -> SessionPlace | None:
        """The place of a request that ends the session; None: the broker keeps none."""
        return None if self._place.id == _NO_ID else SessionPlace(self._place.id, _FINAL)

    def fail(self) -> None:
        """The request had no response, and nobody knows if the broker has seen it."""
        self.renew()
