"""ListOffsets in every version: what is asked, and what is read."""

from __future__ import annotations

import pytest

from aioproducer.engine.client.list_offsets import (
    EARLIEST,
    LATEST,
    FoundOffset,
    IsolationLevel,
    ListOffsetsRequest,
)
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition
from tests.support.kio_messages import ours, response_type, theirs
from tests.support.samples import sample

LOW, HIGH = SUPPORTED[Api.LIST_OFFSETS]
VERSIONS = range(LOW, HIGH + 1)
ONE, TWO, OTHER = (
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("bills", 0),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_asked_for_by_topic(version: int) -> None:
    made = ListOffsetsRequest(
        {ONE: EARLIEST, OTHER: 17, TWO: LATEST}, IsolationLevel.READ_COMMITTED
    )
    request = theirs(made.build(version))
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    asked = {
        (topic.name, each.partition_index): each.timestamp
        for topic in request.topics
        for each in topic.partitions
    }
    assert asked == {("orders", 1): -2, ("orders", 2): -1, ("bills", 0): 17}
    assert len(request.topics) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_the_offset_of_each_partition_is_read(version: int) -> None:
    response = ours(sample(response_type(Api.LIST_OFFSETS, version)))
    epoch = 1 if version >= 4 else -1
    assert ListOffsetsRequest({ONE: LATEST}).read(response) == {ONE: FoundOffset(0, 5, 5, epoch)}


def test_a_partition_without_an_offset_is_a_protocol_error() -> None:
    response = ours(sample(response_type(Api.LIST_OFFSETS, HIGH)))
    with pytest.raises(ProtocolError, match="orders-2"):
        ListOffsetsRequest({ONE: LATEST, TWO: LATEST}).read(response)
