"""A timeout that is none is refused before anything changes."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import ConfigError, Producer, sync

WRONG = ["5", -1, float("nan"), True, b"1", [1]]


@pytest.mark.parametrize("timeout", WRONG)
async def test_a_timeout_that_is_none(timeout: Any) -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:9")
    await producer.start()
    with pytest.raises(ConfigError, match="a timeout is a number of seconds"):
        await producer.flush(timeout)
    with pytest.raises(ConfigError, match="a timeout is a number of seconds"):
        await producer.close(timeout)
    assert await producer.close(0) == 0, "it can still be closed"


@pytest.mark.parametrize("timeout", WRONG)
def test_a_timeout_that_is_none_of_the_blocking_shell(timeout: Any) -> None:
    with sync.Producer(bootstrap_servers="127.0.0.1:9") as producer:
        for call in (producer.flush, producer.close):
            with pytest.raises(ConfigError, match="a timeout is a number of seconds"):
                call(timeout)
        producer.flush(60)
        assert producer.close(0) == 0, "it can still be closed"


async def test_metrics_without_a_window_do_not_break_the_producer() -> None:
    async with Producer(bootstrap_servers="127.0.0.1:9", metrics_sample_window_ms=0) as producer:
        await producer.flush(1)
        assert producer.metrics()["producer-metrics"]["record-send-total"] == 0
