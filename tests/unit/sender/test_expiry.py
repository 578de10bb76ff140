"""Records that waited too long fail, and say for what they waited."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.engine.accumulator import SerializedRecord, Unserialized
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.errors import (
    BootstrapError,
    BufferExhaustedError,
    MetadataTimeoutError,
    NotPreparedError,
    PreparationTimeoutError,
    code_name,
)
from tests.support.responses import metadata_response
from tests.support.world import BACKOFF, BROKERS, MAX_BLOCK
from tests.unit.sender.world import running


async def test_an_unknown_topic_is_waited_for_until_max_block() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(code=3)
        assert not future.done()
        await world.turn(BACKOFF * 2)
        await world.tell_metadata(code=3)
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError)
        for part in (
            "'orders'",
            "raise the timeout",
            "Check its name",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "does not exist",
        ):
            assert part in str(error)


@pytest.mark.parametrize("code", [9999, -1, 38])
async def test_an_odd_error_of_a_topic_is_waited_out_and_then_named(code: int) -> None:
    """As with Kafka: what forbids to create a topic may pass, too few brokers for one."""
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        answer = metadata_response("orders", (1,), code, BROKERS, 5)
        await world.complete(world.one(MetadataRequest), answer)
        await world.turn(BACKOFF * 2)
        assert not future.done()
        assert len(world.requests(MetadataRequest)) == 1, "and asked again"
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError)
        assert code_name(code) in str(error)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("code", [9999, 42])
async def test_an_answer_that_is_an_error_as_a_whole_is_waited_out_and_then_named(
    known: bool, code: int
) -> None:
    async with running(known=known) as world:
        future = world.send(topic="new")
        await world.turn()
        answer = metadata_response("new", (), 0, BROKERS, 5, whole_code=code)
        await world.turn(BACKOFF * 2)
        await world.complete(world.one(MetadataRequest), answer)
        assert not future.done()
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, MetadataTimeoutError if known else BootstrapError)
        assert code_name(code) in str(error)


async def test_a_record_for_a_partition_that_is_not_there_fails_alone() -> None:
    """The topic takes other records, so the producer can write."""
    async with running() as world:
        wrong = world.send(partition=77)
        await world.turn(MAX_BLOCK)
        assert "partition 77" in str(wrong.exception())
        outcomes = world.accumulator.topic_outcomes
        assert (outcomes.failed_records, dict(outcomes.failing)) == (1, {})


async def test_a_topic_that_is_not_there_fails() -> None:
    async with running(known=False) as world:
        world.send()
        await world.turn(MAX_BLOCK)
        assert set(world.accumulator.topic_outcomes.failing) == {"orders"}


async def test_no_memory_within_max_block() -> None:
    async with running(memory=1000) as world:
        world.network.unreachable.add(1)
        world.send(b"x" * 900)
        late = world.send(b"x" * 900)
        await world.turn(MAX_BLOCK)
        error = late.exception()
        assert isinstance(error, BufferExhaustedError)
        assert "drain()" in str(error)


async def test_late_records_that_lack_something_are_not_all_serialized_in_vain() -> None:
    attempts = 0

    def lacking() -> SerializedRecord:
        nonlocal attempts
        attempts += 1
        raise NotPreparedError("no schema yet")

    async with running(pending_memory=1_000_000) as world:
        futures = [asyncio.get_running_loop().create_future() for _ in range(1_000)]
        for future in futures:
            world.accumulator.enqueue(
                SerializedRecord("orders", None, 1, None, None, (), future),
                world.now,
                unserialized=Unserialized(100, lacking),
            )
        await world.turn(MAX_BLOCK)
        assert {type(future.exception()) for future in futures} == {PreparationTimeoutError}
    assert 0 < attempts < 100, "the next one tells enough"


async def test_a_wait_is_told_once_a_minute_with_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The sender's rounds are no news, so they are not counted."""
    async with running(known=False) as world:
        world.send()
        world.send(topic="invoices")
        for _ in range(50):
            await world.turn(0.5)
    lines = [each.getMessage() for each in caplog.records if "pending, the oldest" in each.msg]
    assert len(lines) == 1
    assert "2 records pending, the oldest one for 10" in lines[0]
    assert lines[0].endswith("it waits for the metadata of topic 'orders'")
