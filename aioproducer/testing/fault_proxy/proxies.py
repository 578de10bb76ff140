"""A fault proxy before each broker of a cluster."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Self

from aioproducer.testing.fault_proxy.faults import Fault
from aioproducer.testing.fault_proxy.proxy import FaultProxy
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster

__all__ = ["FaultProxies"]


class FaultProxies(Mapping[int, FaultProxy]):
    """The proxies by broker id, 1 to `brokers`; an async context manager.

    They listen before the cluster starts, because Kafka needs its advertised ports::

        async with (
            FaultProxies(3) as proxies,
            KafkaCluster(3, advertised_ports=proxies.ports) as cluster,
        ):
            proxies.lead_to(cluster)

    For a `MockCluster`, :meth:`lead_to` sets the advertised addresses. Clients connect to
    :attr:`bootstrap_servers`. `tls` and `target_tls`: see :class:`FaultProxy`.
    """

    def __init__(
        self,
        brokers: int,
        *,
        tls: ssl.SSLContext | None = None,
        target_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._proxies = {
            number: FaultProxy(tls=tls, target_tls=target_tls) for number in range(1, brokers + 1)
        }
        self._stack = AsyncExitStack()

    @property
    def ports(self) -> dict[int, int]:
        """The port of each proxy, for KafkaCluster's `advertised_ports`."""
        return {number: proxy.port for number, proxy in self._proxies.items()}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the proxies."""
        return ",".join(proxy.address for proxy in self._proxies.values())

    @property
    def counts(self) -> Counter[type[Fault]]:
        """How often each fault was applied, over all proxies."""
        return sum((proxy.counts for proxy in self._proxies.values()), Counter())

    def lead_to(self, cluster: KafkaCluster | MockCluster) -> None:
        """Put each proxy in front of the broker with its number. Raises ValueError if there is
        none."""
        for number, proxy in self._proxies.items():
            if isinstance(cluster, KafkaCluster):
                proxy.target = cluster.broker(number).port
            else:
                _, proxy.target = cluster.broker_address(number)
                cluster.set_broker_address(number, "127.0.0.1", proxy.port)

    def __getitem__(self, broker: int) -> FaultProxy:
        return self._proxies[broker]

    def __iter__(self) -> Iterator[int]:
        return iter(self._proxies)

    def __len__(self) -> int:
        return len(self._proxies)

    async def __aenter__(self) -> Self:
        async with self._stack:
            for proxy in self._proxies.values():
                await self._stack.enter_async_context(proxy)
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
