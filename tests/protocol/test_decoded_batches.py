"""Batches that this project or another client wrote are decoded to the records that were sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder as AiokafkaBuilder,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder as KafkaPythonBuilder,
)

from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.builder import (
    NO_PRODUCER_STATE,
    ProducerState,
    batch_size_bound,
    compress_records,
    frame_batch,
)
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.decoder import decode
from aioproducer.engine.records.field_reader import WrittenRecord
from aioproducer.model import ConsumerRecord, Header
from tests.support.encoded_batches import LIMIT, NOW, consumer_record, decoded, only_batch

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def encode(
    sent: Sequence[WrittenRecord], codec: str, state: ProducerState = NO_PRODUCER_STATE
) -> bytes:
    size = sum(batch_size_bound(each.key, each.value, each.headers) for each in sent)
    builder = RecordsBuilder(bytearray(size), size)
    for each in sent:
        assert builder.append(None, *each)
    used = compression(codec)
    return bytes(frame_batch(builder, state, used, compress_records(builder, used)))


def written_by(client: Any, sent: Sequence[WrittenRecord], codec: str) -> bytes:
    builder = client(2, CODECS[codec], 0, -1, -1, -1, 2**30)
    for offset, each in enumerate(sent):
        assert builder.append(offset, each.timestamp_ms, each.key, each.value, list(each.headers))
    return bytes(builder.build())


def expected(
    sent: Sequence[WrittenRecord], leader_epoch: int | None = None
) -> list[ConsumerRecord]:
    return [
        consumer_record(
            offset, each.value, each.key, each.headers, each.timestamp_ms, leader_epoch=leader_epoch
        )
        for offset, each in enumerate(sent)
    ]


few_bytes = st.none() | st.sampled_from([b"", b"k", b"y" * 9_000]) | st.binary()
headers: st.SearchStrategy[tuple[Header, ...]] = st.just(()) | st.lists(
    st.tuples(st.sampled_from(["", "trace", "größe", "鍵"]) | st.text(), few_bytes), max_size=4
).map(tuple)
timestamps = st.sampled_from([NOW, NOW, NOW + 1, NOW - 65]) | st.integers(0, 2**63 - 1)
record = st.builds(WrittenRecord, timestamps, few_bytes, few_bytes, headers)
batches = st.lists(st.tuples(record, st.sampled_from([1, 1, 2, 70])), min_size=1, max_size=8).map(
    lambda groups: [each for each, times in groups for _ in range(times)]
)
states = st.just(NO_PRODUCER_STATE) | st.builds(
    ProducerState,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@given(sent=batches, codec=st.sampled_from(list(CODECS)), state=states)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_round_trips(sent: list[WrittenRecord], codec: str, state: ProducerState) -> None:
    batch = only_batch(encode(sent, codec, state))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == state[:3]
    assert batch.is_transactional == state.transactional
    assert (batch.compression_id, batch.record_count) == (CODECS[codec], len(sent))
    assert list(decode(batch, limit=LIMIT)) == expected(sent)


@pytest.mark.parametrize(
    ("client", "epoch"),
    [
        pytest.param(AiokafkaBuilder, None, id="aiokafka"),
        pytest.param(KafkaPythonBuilder, 0, id="kafka-python"),
    ],
)
@given(sent=batches, codec=st.sampled_from(list(CODECS)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_batches_of_other_clients(
    client: Any, epoch: int | None, sent: list[WrittenRecord], codec: str
) -> None:
    assert list(decoded(written_by(client, sent, codec))) == expected(sent, epoch)
