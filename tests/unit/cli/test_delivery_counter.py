"""BulkOutcomes are counted; the first errors are told, each once."""

from __future__ import annotations

import asyncio

from aioproducer.cli.record_outcomes import DeliveryCounter
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.model import RecordMetadata


async def count(
    *fates: RecordMetadata | Exception | None,
) -> tuple[DeliveryCounter, list[str], list[BaseException]]:
    """None is a cancelled future."""
    told: list[str] = []
    failures: list[BaseException] = []
    deliveries = DeliveryCounter(told.append, failures.append)
    for fate in fates:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        deliveries.watch(future)
        if fate is None:
            future.cancel()
        elif isinstance(fate, Exception):
            future.set_exception(fate)
        else:
            future.set_result(fate)
    await asyncio.sleep(0)
    return deliveries, told, failures


async def test_delivered_records_and_their_bytes() -> None:
    deliveries, told, failures = await count(
        RecordMetadata("t", 0, 0, 0, 3, 10), RecordMetadata("t", 0, 1, 0, -1, -1)
    )
    assert (deliveries.delivered, deliveries.failed, deliveries.bytes) == (2, 0, 13)
    assert (told, failures) == ([], [])


async def test_equal_errors_are_told_once_and_no_more_than_five() -> None:
    errors = [DeliveryTimeoutError(f"error {number // 2}") for number in range(20)]
    deliveries, told, failures = await count(*errors)
    assert told == [f"error {number}" for number in range(5)]
    assert (deliveries.failed, failures) == (20, errors)


async def test_a_cancelled_record_counts_as_failed() -> None:
    deliveries, told, failures = await count(None)
    assert (deliveries.failed, failures) == (1, [])
    assert told == ["a record was cancelled before it was sent"]
