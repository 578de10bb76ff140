"""The request that fetches record batches from a leader. No I/O.

Source: Kafka's ``FetchRequest``, without incremental sessions (KIP-227).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.model import TopicPartition

_FIRST_WITH_TOPIC_IDS: Final = 13


class FetchPartition(NamedTuple):
    """A partition in a request."""

    where: TopicPartition
    offset: int
    """The first offset to fetch."""
    leader_epoch: int
    """The leader's epoch as far as it is known here; -1: unknown."""


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


class Fetched(NamedTuple):
    """The content of a response."""

    error_code: int
    partitions: Mapping[TopicPartition, FetchedPartition]


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
    """Ask a leader for batches of ``partitions``, in their order while ``max_bytes`` last."""

    partitions: Sequence[FetchPartition]
    topic_ids: Mapping[str, UUID | None]
    isolation: IsolationLevel
    limits: FetchLimits
    api: Api = Api.FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``. Raises :class:`UnsupportedVersionError` without topic ids."""
        schema = request_schema(Api.FETCH)
        topics: dict[str, list[Any]] = {}
        for where, offset, epoch in self.partitions:
            topics.setdefault(where.topic, []).append(
                schema.FetchPartition(
                    partition=where.partition,
                    fetch_offset=offset,
                    partition_max_bytes=self.limits.partition_max_bytes,
                    current_leader_epoch=epoch,
                )
            )
        request = schema.FetchRequest(
            max_wait_ms=self.limits.max_wait_ms,
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            isolation_level=int(self.isolation),
            topics=tuple(
                schema.FetchTopic(**self._named(topic, version), partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
        )
        return encoded(Api.FETCH, version, request)

    def _named(self, topic: str, version: int) -> dict[str, Any]:
        if version < _FIRST_WITH_TOPIC_IDS:
            return {"topic": topic}
        topic_id = self.topic_ids.get(topic)
        if topic_id is None:
            raise UnsupportedVersionError(
                f"the broker fetches by topic ids, and the cluster gives topic {topic!r} none: "
                "upgrade every broker of the cluster"
            )
        return {"topic_id": topic_id}

    def read(self, response: Any) -> Fetched:
        """The content of the response. Raises :class:`ProtocolError` if a partition lacks."""
        error_code = response.error_code
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items() if topic_id}
        found: dict[TopicPartition, FetchedPartition] = {}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if not name:
                continue
            for each in topic.partitions:
                found[TopicPartition(name, each.partition_index)] = _partition(each)
        asked = [each.where for each in self.partitions]
        missing = [where for where in asked if where not in found]
        if missing and not error_code:
            raise ProtocolError(f"the response does not mention {', '.join(map(str, missing))}")
        return Fetched(error_code, {where: found[where] for where in asked if where in found})


def _partition(said: Any) -> FetchedPartition:
    aborted = (
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in said.aborted_transactions or ()
    )
    return FetchedPartition(
        said.error_code,
        said.records or b"",
        said.high_watermark,
        said.last_stable_offset,
        said.log_start_offset,
        tuple(aborted),
    )
