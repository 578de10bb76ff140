"""The producer's id is asked for when it is needed, and another after a loss."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.errors import BrokerConnectionError, DeliveryTimeoutError, KafkaError
from aioproducer.model import NodeId
from tests.support.responses import identity_response, produce_response
from tests.support.world import BACKOFF, DELIVERY
from tests.unit.sender.world import identified, running, states


async def test_no_identity_is_asked_for_until_there_is_something_to_send() -> None:
    async with running(idempotent=True) as world:
        await world.turn(10)
        assert world.requests(InitProducerIdRequest) == []
        assert world.requests(ProduceRequest) == []


async def test_a_failed_request_for_an_identity_is_repeated_after_the_backoff() -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        sent = world.one(InitProducerIdRequest)
        await world.complete(sent, error=BrokerConnectionError("broken"))
        await world.turn(BACKOFF / 2)
        assert world.requests(InitProducerIdRequest) == []
        await world.turn(BACKOFF)
        sent = world.one(InitProducerIdRequest)
        await world.complete(sent, identity_response(-1, code=14))
        await world.turn(BACKOFF * 1.5)
        assert world.requests(InitProducerIdRequest) == []  # the second wait is twice as long
        await world.turn(BACKOFF)
        await world.complete(world.one(InitProducerIdRequest), identity_response(78))
        assert states(world.one(ProduceRequest)) == [(78, 0)]
        assert not future.done()


async def test_a_principal_without_the_right_to_an_identity_is_told_so() -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        refused = identity_response(-1, code=31)
        await world.complete(world.one(InitProducerIdRequest), refused)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert "IDEMPOTENT_WRITE" in str(error)
        assert "enable_idempotence=False" in str(error)
        assert world.pool.available == world.pool.total


def epochs(sent: tuple[NodeId, Any]) -> list[tuple[int, int, int]]:
    """Partition, epoch and base sequence of each batch of a produce request."""
    return [
        (each.topic_partition.partition, each.state.producer_epoch, each.state.base_sequence)
        for each, _ in sent[1].batches
    ]


async def test_behind_a_refused_batch_the_partition_goes_on_in_its_next_epoch() -> None:
    async with identified() as world:
        lost, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        behind = world.send(partition=0)
        await world.turn()
        second = world.one(ProduceRequest)
        assert states(second) == [(77, 2)]
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await world.complete(sent, produce_response(places[:1], code=10))
        assert isinstance(lost.exception(), KafkaError)
        assert not other.done()
        late = world.send(partition=0)
        await world.turn()
        assert [each for sent in world.requests(ProduceRequest) for each in epochs(sent)] == []
        await world.answer(second, code=45)
        await world.turn(BACKOFF * 2)
        again = [each for sent in world.requests(ProduceRequest) for each in epochs(sent)]
        assert (0, 1, 0) in again
        assert (0, 1, 1) not in again, "nothing follows the first of an epoch"
        assert world.requests(InitProducerIdRequest) == []
        assert not behind.done()
        assert not late.done()


@pytest.mark.parametrize("written", [True, False])
async def test_a_batch_given_up_on_its_way_leaves_a_doubt(written: bool) -> None:
    """What is behind it is sent with its own number, and that tells."""
    async with identified() as world:
        lost = world.send()
        await world.turn()
        one = world.one(ProduceRequest)
        world.now += 1
        behind = world.send()
        await world.turn()
        two = world.one(ProduceRequest)
        await world.turn(DELIVERY - 0.5)
        assert isinstance(lost.exception(), DeliveryTimeoutError)
        assert not behind.done()
        late = world.send()
        await world.turn()
        assert world.requests(ProduceRequest) == [], "no number is given in doubt"
        await world.answer(one, code=6)
        if written:
            await world.answer(two)
            assert epochs(world.one(ProduceRequest)) == [(0, 0, 3)]
            assert behind.done()
            return
        await world.answer(two, code=45)
        await world.turn(BACKOFF * 2)
        again = world.one(ProduceRequest)
        assert epochs(again) == [(0, 1, 0)]
        await world.answer(again)
        assert epochs(world.one(ProduceRequest)) == [(0, 1, 1)]
        assert behind.done()
        assert not late.done()


@pytest.mark.parametrize("code", [31, 53, 90])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_fatal_error_fails_everything_and_the_next_record_tries_again(
    code: int, idempotent: bool
) -> None:
    async with identified() if idempotent else running() as world:
        refused, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        queued, waiting = world.send(partition=0), world.send(topic="unknown")
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        await world.complete(sent, produce_response(places[:1], code=code))
        error = refused.exception()
        assert isinstance(error, KafkaError)
        assert (error.code, error.may_have_been_written) == (code, False)
        if not idempotent:
            assert not queued.done()
            assert not waiting.done()
            return
        for future, written in ((other, True), (queued, False), (waiting, False)):
            error = future.exception()
            assert isinstance(error, KafkaError)
            assert (error.code, error.may_have_been_written) == (code, written)
        after = world.send(partition=0)
        await world.turn()
        again = world.requests(ProduceRequest)[-1]
        assert epochs(again) == [(0, 1, 0)]
        await world.answer(again)
        assert after.exception() is None


@pytest.mark.parametrize("code", [7, 14, 15, 16, 51])
async def test_an_identity_that_is_not_to_be_had_yet_is_asked_for_again(code: int) -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        for failures in range(3):
            refusal = identity_response(-1, code=code)
            await world.complete(world.one(InitProducerIdRequest), refusal)
            await world.turn(BACKOFF * 2**failures * 1.5)
        await world.complete(world.one(InitProducerIdRequest), identity_response(78))
        await world.answer(world.one(ProduceRequest))
        assert (await future).offset == 42


@pytest.mark.parametrize("code", [-1, 9999, 35, 42, 47, 49, 50, 53, 90, 120])
async def test_an_identity_that_is_refused_for_good_fails_what_waits_for_it(code: int) -> None:
    async with running(idempotent=True) as world:
        future = world.send()
        await world.turn()
        refusal = identity_response(-1)._replace(error_code=code)
        await world.complete(world.one(InitProducerIdRequest), refusal)
        error = future.exception()
        assert isinstance(error, KafkaError)
        assert error.code == code
        assert error.name in str(error)


async def test_out_of_order_behind_a_batch_on_its_way_keeps_the_identity() -> None:
    async with identified() as world:
        first = world.send()
        await world.turn()
        one = world.one(ProduceRequest)
        second = world.send()
        await world.turn()
        two = world.one(ProduceRequest)
        await world.answer(one, code=20)
        await world.answer(two, code=45)
        await world.turn(BACKOFF * 3)
        assert world.requests(InitProducerIdRequest) == []
        again = world.requests(ProduceRequest)
        assert states(again[0]) == [(77, 1)]
        await world.answer(again[0], offset=50)
        await world.turn(BACKOFF * 3)
        (last,) = again[1:] or world.requests(ProduceRequest)
        assert states(last) == [(77, 2)]
        await world.answer(last, offset=51)
        assert ((await first).offset, (await second).offset) == (50, 51)
