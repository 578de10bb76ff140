"""The producer's id is asked for when it is needed, and another after a loss."""

from __future__ import annotations

from aioproducer.errors import BrokerConnectionError, KafkaError
from aioproducer.sender.produce import ProduceRequest
from aioproducer.sender.requests import InitProducerIdRequest
from tests.unit.sender.world import (
    BACKOFF,
    identified,
    identity_response,
    produce_response,
    running,
    states,
)


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
        assert world.accumulator.pool.available == world.accumulator.pool.total


async def test_a_lost_numbered_batch_takes_a_new_identity_once_nothing_is_in_flight() -> None:
    async with identified() as world:
        lost, other = world.send(partition=0), world.send(partition=1)
        await world.turn()
        sent = world.one(ProduceRequest)
        world.send(partition=0)
        await world.turn()
        second = world.one(ProduceRequest)
        assert states(second) == [(77, 2)]
        places = [batch.topic_partition for batch, _ in sent[1].batches]
        response = produce_response(places[:1], code=10)
        await world.complete(sent, response)
        assert isinstance(lost.exception(), KafkaError)
        assert not other.done()
        assert world.requests(InitProducerIdRequest) == [], "a batch is still in flight"
        await world.answer(second, code=45)
        await world.complete(world.one(InitProducerIdRequest), identity_response(99))
        await world.turn(BACKOFF * 2)
        sent_again = world.requests(ProduceRequest)
        assert sent_again
        assert all(number >= 0 for each in sent_again for _, number in states(each))


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
