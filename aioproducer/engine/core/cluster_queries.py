"""Callers' queries about the cluster, which the sender's requests carry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aioproducer.engine.cluster.snapshot import ClusterView, TopicInfo, why_no_answer
from aioproducer.engine.core.parts import Parts
from aioproducer.engine.network.request import Request
from aioproducer.errors import ProducerError, anew
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import BootstrapServer, PartitionInfo, Peer

_T = TypeVar("_T")


class ClusterQueries:
    """Sends requests on behalf of a caller, which waits for the response. Times are seconds."""

    def __init__(self, parts: Parts, clock: Callable[[], float]) -> None:
        self._client = parts.client
        self._metadata = parts.metadata
        self._metrics = parts.metrics
        self._refresher = parts.refresher
        self._ad_hoc = parts.ad_hoc
        self._clock = clock

    @property
    def known(self) -> ClusterView:
        """The cluster as it is known: the brokers, and the topics in use."""
        return self._metadata.snapshot

    @property
    def bootstrap_servers(self) -> Sequence[BootstrapServer]:
        """The addresses for the first request."""
        return self._metadata.bootstrap

    async def request(self, request: Request, node: Peer | None = None) -> Any:
        """The response of ``node``, or of any broker.

        Raises the reason that there is none. Without ``node`` the call waits until a broker accepts
        the login or each broker has refused it.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ad_hoc.ask(request, answer, node)
        result = await answer
        if isinstance(result, ProducerError):
            raise anew(result)
        return result

    @property
    def features(self) -> Mapping[str, int]:
        """The features that the whole cluster supports (KIP-584)."""
        return self._client.features.levels

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""
        return self._client.versions()

    def why_no_answer(self) -> str:
        """The last error of each broker that could get a request."""
        return why_no_answer(self._metadata.peers, self._client.failures())

    async def topic(self, topic: str, timeout: float) -> TopicInfo:
        """The partitions and leaders of ``topic``, waited for up to ``timeout`` seconds.

        Raises the error of a record that waits for the topic's metadata in vain.
        """
        known = self._metadata.snapshot.topics.get(topic)
        if known is not None:
            self._metadata.use(topic, self._clock())
            return known
        return await self._wait_for(
            topic, timeout, self._metadata.wait_for, self._metadata.wait_no_longer
        )

    async def partition_infos(self, topic: str, timeout: float) -> tuple[PartitionInfo, ...]:
        """The partitions of ``topic`` as the cluster has them now; raises as :meth:`topic` does."""
        return await self._wait_for(
            topic,
            timeout,
            self._metadata.wait_for_details,
            self._metadata.wait_for_details_no_longer,
        )

    async def _wait_for(
        self,
        topic: str,
        timeout: float,
        wait: Callable[[str, asyncio.Future[_T | ProducerError], float], None],
        wait_no_longer: Callable[[str, asyncio.Future[_T | ProducerError]], None],
    ) -> _T:
        began = self._clock()
        answer: asyncio.Future[_T | ProducerError] = asyncio.get_running_loop().create_future()
        wait(topic, answer, began)
        try:
            async with PatientTimeout(timeout):
                found = await answer
        except TimeoutError:
            raise self._refresher.why_no_metadata(topic, began, self._clock()) from None
        finally:
            wait_no_longer(topic, answer)
            now = self._clock()
            self._metrics.metadata_waited(now - began, now)
        if isinstance(found, ProducerError):
            raise anew(found)
        return found
