"""The codec keeps to the versions that the transaction protocol of the handle allows."""

from __future__ import annotations

import pytest

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.transactions.requests import CoordinatorRequest, EndTxn, TxnOffsetCommit
from aioproducer.model import TransactionHandle
from tests.support.kio_messages import theirs
from tests.unit.transactions.wire import (
    CONSUMED,
    FIRST,
    MEMBER,
    ONE,
    SECOND,
    built,
    each_version,
    versions,
)


@pytest.mark.parametrize(
    ("coordinator_request", "api", "highest"),
    [
        (EndTxn(committed=True), Api.END_TXN, 4),
        (TxnOffsetCommit(CONSUMED, MEMBER), Api.TXN_OFFSET_COMMIT, 4),
    ],
    ids=["EndTxn", "TxnOffsetCommit"],
)
def test_in_version_1_requests_that_mean_version_2_are_not_used(
    coordinator_request: CoordinatorRequest, api: Api, highest: int
) -> None:
    """KIP-890: a broker takes the version of the request for that of the protocol."""
    assert SUPPORTED[api][1] > highest
    for version in versions(api):
        if isinstance(coordinator_request, TxnOffsetCommit) and version < 3:
            continue
        read = built(coordinator_request, version, FIRST)
        assert int(read.__version__) == min(version, highest)
        assert int(built(coordinator_request, version, SECOND).__version__) == version


@each_version(Api.PRODUCE)
@pytest.mark.parametrize("handle", [FIRST, SECOND, None])
def test_a_produce_request_names_the_transaction(
    version: int, handle: TransactionHandle | None
) -> None:
    batch = ProducerBatch(ONE, bytearray(100), 100, 0.0, 1.0)
    made = ProduceRequest([(batch, bytearray(b"batch"))], -1, 30_000, {"orders": None})
    if handle is not None:
        made = ProduceRequest(made.batches, -1, 30_000, made.topic_ids, handle)
    payload = made.build(version)
    read = theirs(payload)
    assert read.transactional_id == (None if handle is None else "payments")
    highest = 11 if handle is FIRST else 12  # 13 needs the topic's id
    assert int(read.__version__) == min(version, highest)
