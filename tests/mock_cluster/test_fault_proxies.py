"""A fault proxy before each broker of a mock cluster."""

from __future__ import annotations

from aioproducer import Producer
from aioproducer.testing.fault_proxy import END, ApiKey, Cut, FaultProxies, Rule, Way
from aioproducer.testing.mock_cluster import MockCluster


async def test_clients_meet_the_proxies_alone() -> None:
    async with (
        MockCluster(brokers=3, topics={"orders": 3}) as cluster,
        FaultProxies(3) as proxies,
    ):
        proxies.lead_to(cluster)
        for proxy in proxies.values():
            proxy.add(
                Rule(Cut(END), ApiKey.PRODUCE, Way.RESPONSE),
                Rule(Cut(), ApiKey.PRODUCE, Way.REQUEST, after=1),
            )
        async with Producer(
            bootstrap_servers=proxies.bootstrap_servers, retry_backoff_ms=2, reconnect_backoff_ms=2
        ) as producer:
            for number in range(12):
                sent = await producer.send("orders", b"v", partition=number % 3)
                assert (sent.partition, sent.offset) == (number % 3, number // 3)
        assert [proxy.counts[Cut] for proxy in proxies.values()] == [2, 2, 2]
        assert proxies.counts == {Cut: 6}
