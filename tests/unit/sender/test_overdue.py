"""Records that waited too long fail, and say for what they waited."""

from __future__ import annotations

from aioproducer.errors import BufferExhaustedError, MetadataTimeoutError
from tests.unit.sender.world import BACKOFF, MAX_BLOCK, running


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
        for part in ("'orders'", "max_block_ms", "UNKNOWN_TOPIC_OR_PARTITION", "does not exist"):
            assert part in str(error)


async def test_no_memory_within_max_block() -> None:
    async with running(memory=1000) as world:
        world.network.unreachable.add(1)
        world.send(b"x" * 900)
        late = world.send(b"x" * 900)
        await world.turn(MAX_BLOCK)
        error = late.exception()
        assert isinstance(error, BufferExhaustedError)
        assert "drain()" in str(error)
