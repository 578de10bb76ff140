"""Topics and brokers that are not known yet, and what is said of them."""

from __future__ import annotations

import pytest

from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    KafkaError,
    UnsupportedVersionError,
)
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.requests import MetadataRequest
from tests.unit.sender.world import BACKOFF, BOOT, BROKERS, MAX_BLOCK, metadata_response, running


@pytest.mark.parametrize("code", [17, 29])
async def test_a_fatal_error_of_a_topic_reaches_whoever_waits_at_once(code: int) -> None:
    async with running(known=False) as world:
        futures = [world.send() for _ in range(3)]
        await world.tell_metadata(code=code)
        for future in futures:
            error = future.exception()
            assert isinstance(error, KafkaError)
            assert error.code == code
            assert "'orders'" in str(error)


async def test_an_odd_error_of_a_partition_does_not_hide_its_leader() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        answer = metadata_response("orders", (1,), 0, BROKERS, 5)
        object.__setattr__(answer.topics[0].partitions[0], "error_code", 9999)
        await world.complete(world.one(MetadataRequest), answer)
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_an_auto_created_topic_is_used_as_soon_as_it_has_leaders() -> None:
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(code=5)
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


async def test_no_bootstrap_server_answers() -> None:
    async with running(known=False) as world:
        world.network.unreachable.add(BOOT.id)
        world.network.reasons[BOOT.id] = BrokerConnectionError(f"{BOOT}: refused")
        future = world.send()
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        for part in ("boot:9092: refused", "bootstrap_servers", "'orders'"):
            assert part in str(error)


async def test_bootstrap_servers_that_answer_with_a_refusal_say_so() -> None:
    """It is not the connection that is at fault, so its state explains nothing."""
    async with running(known=False) as world:
        future = world.send()
        await world.turn()
        too_old = UnsupportedVersionError("the broker speaks METADATA versions 0 to 3")
        await world.complete(world.one(MetadataRequest), error=too_old)
        await world.turn(MAX_BLOCK)
        error = future.exception()
        assert isinstance(error, BootstrapError)
        assert str(too_old) in str(error)


async def test_a_broker_that_knows_topics_but_no_brokers_yet() -> None:
    """It has just started. What it says can't be used, and must not end the producer."""
    async with running(known=False) as world:
        future = world.send()
        await world.tell_metadata(brokers={})
        assert not future.done()
        await world.turn(BACKOFF * 2)
        await world.tell_metadata()
        await world.answer(world.one(ProduceRequest))
        assert future.done()
