"""The bytes of a partition's batches as a broker sends them."""

from __future__ import annotations

from typing import NamedTuple

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.engine.records.decoder import RecordBatch, decode
from aioproducer.engine.records.encoded_batch import EncodedBatch, batches_in
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.requests import (
    Fetched,
    FetchedPartition,
    FetchLimits,
    FetchRequest,
)
from aioproducer.reader.requests import FetchPartition as Wanted

PATIENCE = 30.0
_LIMITS = FetchLimits(500, 1, 2**26, 2**26)


class Round(NamedTuple):
    """A request of a reader, and the response."""

    node: Node
    request: FetchRequest
    fetched: Fetched


async def fetch(bootstrap_servers: str, where: TopicPartition, offset: int = 0) -> FetchedPartition:
    """The leader's response for one partition."""
    client = ClusterClient(ProducerConfig(bootstrap_servers=bootstrap_servers), "fetch", "Fetch")
    await client.start()
    try:
        described = (await client.describe((where.topic,))).topics[where.topic]
        leader = described.partitions[where.partition].leader
        assert leader is not None
        request = FetchRequest(
            [Wanted(where, offset, -1, described.topic_id)],
            IsolationLevel.READ_UNCOMMITTED,
            _LIMITS,
            {} if described.topic_id is None else {described.topic_id: where.topic},
        )
        node = client.node(leader)
        fetched = await client.request(request, node, timeout=PATIENCE)
        found: FetchedPartition = fetched.partitions[where]
        assert not found.error_code
        return found
    finally:
        await client.close()


async def all_batches(bootstrap_servers: str, where: TopicPartition) -> list[EncodedBatch]:
    """All batches of a partition."""
    found: list[EncodedBatch] = []
    offset = 0
    while True:
        response = await fetch(bootstrap_servers, where, offset)
        new = list(batches_in(response.records, where, check_crcs=True))
        found += [each for each in new if each.next_offset > offset]
        if not new or found[-1].next_offset >= response.high_watermark:
            return found
        offset = found[-1].next_offset


async def all_records(bootstrap_servers: str, where: TopicPartition) -> list[RecordBatch]:
    """All batches of a partition, decoded."""
    return [
        decode(each, limit=2**26)
        for each in await all_batches(bootstrap_servers, where)
        if not each.is_control
    ]
