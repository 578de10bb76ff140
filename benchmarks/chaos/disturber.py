"""Carries out a plan: kills, pauses and restarts brokers, and breaks connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from aioproducer.testing.fault_proxy import FaultProxies, FaultScript
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.plan import (
    ConnectionFault,
    Disturbance,
    Disturbances,
    disturbances,
)

_BETWEEN_LOOKS: Final = 0.1
_IN_SYNC_WITHIN: Final = 120.0


class Disturber:
    """Disturbs no more than `at_once` brokers at the same time.

    The next one has its turn when the last one is in sync again. All are when :meth:`run` ends.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        proxies: FaultProxies,
        seed: int,
        kinds: Sequence[Disturbances],
        every: float,
        faults: Iterator[ConnectionFault],
        at_once: int = 1,
        topics: Sequence[str] = (TOPIC,),
    ) -> None:
        self._cluster = cluster
        self._proxies = proxies
        self._seed = seed
        self._faults = faults
        self._topics = topics
        self._kinds = kinds
        self._every = every
        self._lanes = at_once
        self._stopped = asyncio.Event()
        self._turns = {broker.node_id: asyncio.Lock() for broker in cluster.brokers}
        self.counts: Counter[Disturbances] = Counter()

    async def run(self) -> None:
        """Until :meth:`stop`. Raises KafkaClusterError where a broker does not come back."""
        of_brokers = [kind for kind in self._kinds if kind is not Disturbances.CUT]
        async with asyncio.TaskGroup() as group:
            if of_brokers:
                for lane in range(self._lanes):
                    group.create_task(self._disturb_brokers(lane, of_brokers))
            if Disturbances.CUT in self._kinds:
                group.create_task(self._disturb_connections())

    def stop(self) -> None:
        """Disturb nobody more; brokers that are disturbed now come back first."""
        self._stopped.set()

    async def _disturb_brokers(self, lane: int, kinds: Sequence[Disturbances]) -> None:
        for disturbance in disturbances(self._seed, lane, kinds, self._every):
            await self._let_pass(disturbance.calm)
            if self._stopped.is_set():
                return
            async with self._turns[disturbance.broker]:
                await self._disturb(disturbance)
                self.counts[disturbance.kind] += 1
                await self._in_sync(disturbance.broker)

    async def _disturb(self, disturbance: Disturbance) -> None:
        cluster, broker = self._cluster, disturbance.broker
        match disturbance.kind:
            case Disturbances.PAUSE:
                await cluster.pause_broker(broker)
                await self._let_pass(disturbance.lasts)
                await cluster.resume_broker(broker)
            case Disturbances.KILL:
                await cluster.kill_broker(broker)
                await self._let_pass(disturbance.lasts)
                await cluster.start_broker(broker)
            case Disturbances.RESTART:
                await cluster.stop_broker(broker)
                await self._let_pass(disturbance.lasts)
                await cluster.start_broker(broker)

    async def _disturb_connections(self) -> None:
        for fault in self._faults:
            await self._let_pass(fault.calm)
            if self._stopped.is_set():
                return
            # In place of the last one, met or not: else they would gather before a client that
            # is slow to come back, and meet each of its frames when it does.
            self._proxies[fault.broker].play(FaultScript((fault.rule,), fault.seed))

    async def _let_pass(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _in_sync(self, broker: int) -> None:
        async with asyncio.timeout(_IN_SYNC_WITHIN):
            while not await asyncio.to_thread(self._is_in_sync, broker):  # noqa: ASYNC110
                await asyncio.sleep(_BETWEEN_LOOKS)

    def _is_in_sync(self, broker: int) -> bool:
        for asked in self._cluster.brokers:
            if asked.is_running and not asked.paused:
                try:
                    topics = broker_processes.metadata(asked.internal_address, *self._topics).topics
                except OSError:
                    return False
                if not all(broker in each.isr_nodes for one in topics for each in one.partitions):
                    return False
        return True
