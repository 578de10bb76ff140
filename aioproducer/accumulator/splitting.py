"""A batch that the broker finds too large becomes several. Source: ``ProducerBatch.split``."""

from __future__ import annotations

from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.records.builder import batch_size_bound
from aioproducer.records.bulk_tokens import one_by_one
from aioproducer.records.reader import read_records
from aioproducer.records.record_batch import NO_PRODUCER_STATE, next_sequence


def split_batch(batch: ProducerBatch, size: int) -> list[ProducerBatch]:
    """The records of ``batch`` in batches of at most ``size`` bytes, or of one record.

    The parts share its place, its sequence numbers and its deadline. The last part has its pooled
    memory and the count of its futures, so that both are free when that part is done; the others
    have memory of their own meanwhile.
    """
    parts: list[ProducerBatch] = []
    tokens = one_by_one(batch.builder.tokens)
    for token, record in zip(tokens, read_records(batch.builder), strict=True):
        if not parts or not parts[-1].builder.append(token, *record):
            part = _part(batch, size)
            if not part.builder.append(token, *record):
                part = _part(batch, batch_size_bound(record.key, record.value, record.headers))
                part.builder.append(token, *record)
                part.builder.close()
            parts.append(part)
    _number(batch, parts)
    parts[-1].buffer, batch.buffer = batch.buffer, None
    parts[-1].futures = batch.futures
    batch.release()
    return parts


def _part(batch: ProducerBatch, size: int) -> ProducerBatch:
    part = ProducerBatch(
        batch.topic_partition, bytearray(size), size, batch.created, batch.deadline
    )
    part.buffer = None
    part.is_part = True
    part.attempts = batch.attempts
    part.uncertain = batch.uncertain
    return part


def _number(batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
    sequence = batch.state.base_sequence
    for number, part in enumerate(parts):
        part.builder.close()
        part.span = batch.span / len(parts)
        part.order = batch.order + number * part.span
        if batch.state is not NO_PRODUCER_STATE:
            part.state = batch.state._replace(base_sequence=sequence)
            sequence = next_sequence(sequence, part.count)
