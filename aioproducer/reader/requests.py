"""The requests to the leaders of partitions, and the session of fetches with a broker. No I/O.

A broker that grants a session (KIP-227) remembers the partitions and offsets of the last fetch. The
next one names only those that have changed, and the response has only those with something new.

Source: Kafka's ``FetchRequest``, ``FetchSessionHandler`` and ``OffsetForLeaderEpoch``.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.engine.network.request import LazyResponse, SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition

# --- fetches ------------------------------------------------------------------------------------

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_TOPIC_IDS: Final = 13


class FetchPartition(NamedTuple):
    """A partition in a request."""

    where: TopicPartition
    offset: int
    """The first offset to fetch."""
    leader_epoch: int
    """The leader's epoch as far as it is known here; -1: unknown."""
    topic_id: UUID | None = None
    """None: the cluster gives the topic none."""
    reader: int = 0
    """The number of the :class:`PartitionState` that reads it."""
    restarts: int = 0
    """How often its fetching restarted."""

    @property
    def owner(self) -> tuple[UUID | None, int]:
        """Equal in two requests about the same log for the same reader."""
        return self.topic_id, self.reader


class SessionPlace(NamedTuple):
    """The place of a request in a session (KIP-227)."""

    id: int
    """0: none."""
    epoch: int
    """0: a new session is asked for, with all partitions; -1: none, and that of ``id`` ends."""


_NO_ID: Final = 0
_FULL: Final = 0
_FINAL: Final = -1
NO_SESSION: Final = SessionPlace(_NO_ID, _FINAL)


class AbortedTransaction(NamedTuple):
    """An entry of the index of aborted transactions."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """A partition's response."""

    error_code: int
    records: bytes
    """Record batches; the last one may be cut off."""
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    preferred_read_replica: int = -1
    """The broker to fetch from instead (KIP-392); -1: this one."""


class Fetched(NamedTuple):
    """The content of a response."""

    error_code: int
    partitions: Mapping[TopicPartition, FetchedPartition]
    session_id: int = 0
    """0: the broker keeps no session."""
    is_withheld: bool = False
    """True if the broker throttles the client, and may have left out everything (KIP-219)."""
    by_ids: bool = False
    """True if it has topics by their ids."""


class FetchLimits(NamedTuple):
    """The bounds of a request."""

    max_wait_ms: int
    """The time that the leader waits for ``min_bytes``."""
    min_bytes: int
    max_bytes: int
    """Bytes of all partitions. A first batch that is larger comes whole (KIP-74)."""
    partition_max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchRequest(SchemaRequest):
    """Ask a broker for batches of ``partitions``, in their order while ``max_bytes`` last.

    In a session, also for batches of the partitions of earlier requests, without those
    ``forgotten``. ``topics``: the names of the session's topics by their ids.
    """

    partitions: Sequence[FetchPartition]
    isolation: IsolationLevel
    limits: FetchLimits
    topics: Mapping[UUID, str]
    session: SessionPlace = NO_SESSION
    forgotten: Sequence[FetchPartition] = ()
    rack: str = ""
    """The rack of the client (KIP-392); empty: unknown."""
    has_ids: bool = True
    api = Api.FETCH

    def chosen_version(self, version: int) -> int:
        """``version``, or the highest one with names."""
        return version if self.has_ids else min(version, _FIRST_WITH_TOPIC_IDS - 1)

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        most = self.limits.partition_max_bytes
        forgotten = self.forgotten if version >= _FIRST_WITH_SESSIONS else ()
        return schema.FetchRequest(
            max_wait_ms=self.limits.max_wait_ms,
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            isolation_level=int(self.isolation),
            session_id=self.session.id,
            session_epoch=self.session.epoch,
            topics=tuple(
                schema.FetchTopic(
                    **name,
                    partitions=tuple(
                        schema.FetchPartition(
                            partition=each.where.partition,
                            fetch_offset=each.offset,
                            partition_max_bytes=most,
                            current_leader_epoch=each.leader_epoch,
                        )
                        for each in partitions
                    ),
                )
                for name, partitions in _by_topic(self.partitions, version)
            ),
            forgotten_topics_data=tuple(
                schema.ForgottenTopic(
                    **name, partitions=tuple(each.where.partition for each in partitions)
                )
                for name, partitions in _by_topic(forgotten, version)
            ),
            rack_id=self.rack,
        )

    def read(self, response: Any) -> Any:
        """The content of the response (:class:`Fetched`); of a :class:`LazyResponse` in steps.

        Raises :class:`ProtocolError` if it lacks a partition, and is not one of a session.
        """
        if isinstance(response, LazyResponse):
            return response.steps(self._reading(response.pieces()))
        reading = self._reading(_pieces(response))
        while True:
            try:
                next(reading)
            except StopIteration as end:
                fetched: Fetched = end.value
                return fetched

    def _reading(self, pieces: Iterable[Any]) -> Generator[None, None, Fetched]:
        """Read a response, whose structs come after those inside of them."""
        found: dict[TopicPartition, FetchedPartition] = {}
        aborted: list[AbortedTransaction] = []
        partitions: list[tuple[int, FetchedPartition]] = []
        has_topics = by_ids = False
        for piece in pieces:
            match type(piece).__name__:
                case "AbortedTransaction":
                    aborted.append(AbortedTransaction(piece.producer_id, piece.first_offset))
                case "PartitionData":
                    partitions.append((piece.partition_index, _partition(piece, tuple(aborted))))
                    aborted.clear()
                case "FetchableTopicResponse":
                    has_topics = True
                    by_ids = by_ids or not piece.topic
                    if name := piece.topic or self.topics.get(piece.topic_id):
                        found.update(
                            (TopicPartition(name, each[0]), each[1]) for each in partitions
                        )
                    partitions.clear()
            yield
        response = piece
        withheld = not has_topics and response.throttle_time_ms > 0
        if self.session.epoch <= 0 and not response.error_code and not withheld:
            _check_complete(self.partitions, found)
        return Fetched(response.error_code, found, response.session_id, withheld, by_ids)


def _check_complete(
    asked: Iterable[FetchPartition | EpochOfPosition], found: Container[TopicPartition]
) -> None:
    missing = [each.where for each in asked if each.where not in found]
    if missing:
        raise ProtocolError(f"the response does not mention {', '.join(map(str, missing))}")


def _pieces(response: Any) -> Iterator[Any]:
    """The structs of a decoded response, as :meth:`LazyResponse.pieces` has them."""
    for topic in response.responses:
        for partition in topic.partitions:
            yield from partition.aborted_transactions or ()
            yield partition
        yield topic
    yield response


def _by_topic(
    partitions: Iterable[FetchPartition], version: int
) -> Iterator[tuple[dict[str, Any], list[FetchPartition]]]:
    """The partitions of each topic, and how ``version`` names it."""
    topics: dict[tuple[str, UUID | None], list[FetchPartition]] = {}
    for each in partitions:
        topics.setdefault((each.where.topic, each.topic_id), []).append(each)
    by_id = version >= _FIRST_WITH_TOPIC_IDS
    for (topic, topic_id), found in topics.items():
        yield {"topic_id": topic_id} if by_id else {"topic": topic}, found


def _partition(said: Any, aborted: tuple[AbortedTransaction, ...]) -> FetchedPartition:
    return FetchedPartition(
        said.error_code,
        said.records or b"",
        said.high_watermark,
        said.last_stable_offset,
        aborted,
        said.preferred_read_replica,
    )


# --- sessions -----------------------------------------------------------------------------------

_MOST_NAMED: Final = 2_000
"""Partitions that a request names at most, if the broker grants sessions. Each takes microseconds
to write, and to read in the response, and the event loop waits for the whole."""
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

    def __init__(self, node: Node) -> None:
        self.node = node
        """The broker, at the address that was told last."""
        self.buffered = 0
        """Bytes of memory of the batches that were read ahead of its partitions."""
        self.answered_ns: int | None = None
        """The time of the last answer, in nanoseconds since the epoch."""
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


# --- epochs -------------------------------------------------------------------------------------

_CLIENT: Final = -1
"""The replica id of a client."""


class EpochOfPosition(NamedTuple):
    """A partition in a request."""

    where: TopicPartition
    leader_epoch: int
    """The leader's epoch as far as it is known here."""
    read_epoch: int
    """The leader epoch of the last record that was read."""


class EpochEnd(NamedTuple):
    """A partition's response."""

    error_code: int
    leader_epoch: int
    """The largest epoch of the log that is not above the one asked for; -1: there is none."""
    end_offset: int
    """The offset at which that epoch ends in the leader's log; -1: unknown."""


@dataclass(frozen=True, slots=True)
class EpochEndRequest(SchemaRequest):
    """Ask a leader where the epochs end that were read from ``partitions`` (KIP-320)."""

    partitions: Sequence[EpochOfPosition]
    api = Api.OFFSET_FOR_LEADER_EPOCH

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topics: dict[str, list[Any]] = {}
        for where, leader_epoch, read_epoch in self.partitions:
            topics.setdefault(where.topic, []).append(
                schema.OffsetForLeaderPartition(
                    partition=where.partition,
                    current_leader_epoch=leader_epoch,
                    leader_epoch=read_epoch,
                )
            )
        return schema.OffsetForLeaderEpochRequest(
            replica_id=_CLIENT,
            topics=tuple(
                schema.OffsetForLeaderTopic(topic=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
        )

    def read(self, response: Any) -> Mapping[TopicPartition, EpochEnd]:
        """The content of the response. Raises :class:`ProtocolError` if a partition is missing."""
        found = {
            TopicPartition(topic.topic, each.partition): EpochEnd(
                each.error_code, each.leader_epoch, each.end_offset
            )
            for topic in response.topics
            for each in topic.partitions
        }
        _check_complete(self.partitions, found)
        return found
