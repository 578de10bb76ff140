"""Payloads of the moment, made in steps between which other tasks run."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from aioproducer.engine.telemetry.payload import (
    Collected,
    Collector,
    Payload,
    Temporality,
    first_available,
    fitting,
)
from aioproducer.engine.telemetry.subscription import MetricGroups, Subscription
from aioproducer.foundation import tuning

__all__ = ["MadePayload", "MetricsSource", "PayloadMaker"]


class MetricsSource(NamedTuple):
    """The client whose metrics are pushed."""

    snapshot: Callable[[], Mapping[str, Any]]
    groups: MetricGroups
    wall_clock_ns: Callable[[], int]
    started_ns: int
    """The time from which on the client counts."""
    resource: Callable[[], Mapping[str, str]]
    """The attributes of the client as they are now."""


class MadePayload(NamedTuple):
    """A payload, and its meaning."""

    payload: Payload
    collected: Collected


def _compressed(
    collected: Collected,
    resource: Mapping[str, str],
    codecs: Iterable[int],
    refused_codecs: Collection[int],
    max_bytes: int,
) -> Payload | None:
    codec = first_available(codecs, refused_codecs)
    return fitting(collected.groups, resource, codec, max_bytes)


class PayloadMaker:
    """Makes payloads of a client's metrics. ``elsewhere`` runs a call off the event loop."""

    def __init__(
        self,
        source: MetricsSource,
        elsewhere: Callable[[Callable[[], Payload | None]], Awaitable[Payload | None]],
    ) -> None:
        self._source = source
        self._elsewhere = elsewhere
        self._collector = Collector(source.started_ns, source.groups)
        self._codec_is_loaded = False

    async def make(
        self, subscription: Subscription, refused_codecs: Collection[int], max_bytes: int
    ) -> MadePayload | None:
        """The metrics of ``subscription`` as they are now; None: not even the fewest fit."""
        source = self._source
        steps = self._collector.collect(
            source.snapshot(),
            subscription.selection,
            Temporality.DELTA if subscription.delta else Temporality.CUMULATIVE,
            source.wall_clock_ns(),
        )
        while True:
            try:
                next(steps)
            except StopIteration as end:
                collected: Collected = end.value
                break
            await asyncio.sleep(0)
        compress = partial(
            _compressed,
            collected,
            source.resource(),
            subscription.codecs,
            refused_codecs,
            max_bytes,
        )
        size = sum(map(len, collected.groups.values()))
        small = self._codec_is_loaded and size <= tuning.COMPRESS_ELSEWHERE_BYTES
        payload = compress() if small else await self._elsewhere(compress)
        self._codec_is_loaded = True
        return None if payload is None else MadePayload(payload, collected)

    def acknowledge(self, made: MadePayload) -> None:
        """A broker has taken the payload."""
        collected, left_out = made.collected, made.payload.left_out
        counts = {
            metric: counts
            for metric, counts in collected.counts.items()
            if metric[0] not in left_out
        }
        self._collector.acknowledge(collected._replace(counts=counts))
