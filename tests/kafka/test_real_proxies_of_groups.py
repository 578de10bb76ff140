"""A transactional producer and a group's member behind a proxy that is killed, on a real Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import Producer
from tests.support.group_topic import Topic
from tests.support.real_proxies import Microsocks, RealProxy, Squid
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.kafka

TRANSACTIONS, OF_RECORDS = 20, 30


@pytest.mark.parametrize("kind", [Squid, Microsocks])
async def test_each_record_is_read_once_when_it_is_killed(
    topic: Topic, kind: type[RealProxy]
) -> None:
    with kind(asks_for_login=True) as proxy:
        options: dict[str, Any] = {
            "proxy_url": proxy.url(login=kind.login),
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 50,
        }

        async def send() -> None:
            async with Producer(
                bootstrap_servers=topic.kafka.bootstrap_servers,
                transactional_id=topic.name,
                **options,
            ) as producer:
                for number in range(TRANSACTIONS):
                    async with producer.transaction():
                        for _ in range(OF_RECORDS):
                            producer.send(topic.name, b"%d" % topic.sent)
                            topic.sent += 1
                        if number == TRANSACTIONS // 2:
                            proxy.kill()
                            await asyncio.sleep(0.2)
                            proxy.start()

        async with asyncio.timeout(PATIENCE), topic.consumer(**options) as consumer:
            sending = asyncio.create_task(send())
            async for record in consumer:
                topic.took("one", record.value or b"", record.partition)
                if len(topic.read) == TRANSACTIONS * OF_RECORDS:
                    break
            await sending
    assert topic.complete
    assert set(topic.read.values()) == {1}
