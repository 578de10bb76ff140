"""The request that fetches record batches. No I/O.

Source: Kafka's ``FetchRequest``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.network.request import LazyResponse
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_TOPIC_IDS: Final = 13
_LAST_WITH_NAMES: Final = _FIRST_WITH_TOPIC_IDS - 1


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
    """0: a new session is asked for; -1: none is."""


NO_SESSION: Final = SessionPlace(0, -1)


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
    log_start_offset: int
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
class FetchRequest:
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
    api: Api = Api.FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or in the highest one with names."""
        if not self.has_ids:
            version = min(version, _LAST_WITH_NAMES)
        schema = request_schema(Api.FETCH)
        most = self.limits.partition_max_bytes
        forgotten = self.forgotten if version >= _FIRST_WITH_SESSIONS else ()
        request = schema.FetchRequest(
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
        return encoded(Api.FETCH, version, request)

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
            missing = [each.where for each in self.partitions if each.where not in found]
            if missing:
                raise ProtocolError(f"the response does not mention {', '.join(map(str, missing))}")
        return Fetched(response.error_code, found, response.session_id, withheld, by_ids)


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
        said.log_start_offset,
        aborted,
        said.preferred_read_replica,
    )
