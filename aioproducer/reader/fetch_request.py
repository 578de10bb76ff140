"""The request that fetches record batches from a leader. No I/O.

Source: Kafka's ``FetchRequest``, without incremental sessions (KIP-227).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.static.protocol import RequestPayload

from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.network.apis import Api, request_module
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.model import TopicPartition

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_EPOCHS: Final = 9
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

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``. Raises :class:`UnsupportedVersionError` without topic ids."""
        module: Any = request_module(Api.FETCH, version)
        topics: dict[str, list[Any]] = {}
        for where, offset, epoch in self.partitions:
            known = {} if version < _FIRST_WITH_EPOCHS else {"current_leader_epoch": epoch}
            topics.setdefault(where.topic, []).append(
                module.FetchPartition(
                    partition=where.partition,
                    fetch_offset=offset,
                    partition_max_bytes=self.limits.partition_max_bytes,
                    **known,
                )
            )
        forgotten = {} if version < _FIRST_WITH_SESSIONS else {"forgotten_topics_data": ()}
        request: RequestPayload = module.FetchRequest(
            max_wait=timedelta(milliseconds=self.limits.max_wait_ms),
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            isolation_level=int(self.isolation),
            topics=tuple(
                module.FetchTopic(**self._named(topic, version), partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
            **forgotten,
        )
        return request

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
        error_code = int(getattr(response, "error_code", 0))
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        found: dict[TopicPartition, FetchedPartition] = {}
        for topic in response.responses:
            name = getattr(topic, "topic", None)
            if name is None:
                name = names.get(topic.topic_id)
            if name is None:
                continue
            for each in topic.partitions:
                found[TopicPartition(str(name), int(each.partition_index))] = _partition(each)
        asked = [each.where for each in self.partitions]
        missing = [where for where in asked if where not in found]
        if missing and not error_code:
            raise ProtocolError(f"the response does not mention {', '.join(map(str, missing))}")
        return Fetched(error_code, {where: found[where] for where in asked if where in found})


def _partition(said: Any) -> FetchedPartition:
    aborted = (
        AbortedTransaction(int(each.producer_id), int(each.first_offset))
        for each in said.aborted_transactions or ()
    )
    return FetchedPartition(
        int(said.error_code),
        said.records or b"",
        int(said.high_watermark),
        int(said.last_stable_offset),
        int(getattr(said, "log_start_offset", -1)),
        tuple(aborted),
    )
