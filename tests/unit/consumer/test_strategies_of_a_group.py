"""Members of a group that have no strategy in common."""

from __future__ import annotations

import pytest

from aioproducer.errors import KafkaError
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_groups import consumer, fill, live


def test_a_member_with_another_strategy_is_told_what_to_use() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world) as first:
            await anext(aiter(first))
            async with consumer(world, partition_assignment_strategy="sticky") as other:
                with pytest.raises(
                    KafkaError,
                    match=r"another partition_assignment_strategy than 'sticky'; use the same$",
                ) as raised:
                    await anext(aiter(other))
        assert raised.value.name == "INCONSISTENT_GROUP_PROTOCOL"

    live(life)
