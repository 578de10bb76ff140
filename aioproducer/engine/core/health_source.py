"""The facts of a producer's health, read from its parts by any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aioproducer.config import ProducerConfig
from aioproducer.engine.core.health import Health, HealthFacts, assess, stalled_after
from aioproducer.engine.core.lifecycle import Lifecycle
from aioproducer.engine.transactions.transaction import TransactionState

if TYPE_CHECKING:
    from aioproducer.engine.core.parts import Parts

_ATTEMPTS: Final = 20
"""A dictionary that the event loop changes at the same moment makes the reading begin again."""

_UNUSABLE: Final = {
    "not started": "the producer was not started",
    "closing": "the producer is being closed",
    "closed": "the producer is closed; make a new one",
    "forked": "the producer was made in another process (before a fork); make one in each process",
}

_NO_LOOP: Final = "the event loop of the producer was closed; make a new one"


class HealthSource:
    """Reads the parts of a started producer. No call waits, or changes anything."""

    def __init__(self, config: ProducerConfig, parts: Parts, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._client = parts.client
        self._metadata = parts.metadata
        self._accumulator = accumulator = parts.accumulator
        self._batches = accumulator.batches
        self._pending = accumulator.pending
        self._memory_quota = accumulator.memory_quota
        self._topic_outcomes = accumulator.topic_outcomes
        self._manager = None if parts.transactions is None else parts.transactions.manager

    def health(self, client_id: str, state: str) -> Health:
        """The health of the producer, which is ``started`` or ``closing``."""
        for _ in range(_ATTEMPTS):
            try:
                return assess(self._facts(client_id, state), self._clock())
            except RuntimeError:  # the event loop has changed what is read
                continue
        return Health(client_id, state, None, problems=("the health can't be read now",))

    def _facts(self, client_id: str, state: str) -> HealthFacts:
        config, metadata, manager = self._config, self._metadata, self._manager
        oldest, pending, sent = self._batches.oldest, self._pending.oldest, list[float]()
        if oldest is not None:
            sent.append(self._batches.sent_since(oldest))
        if pending is not None:
            sent.append(pending.sent)
        failed = manager is not None and manager.state is TransactionState.ABORTABLE_ERROR
        problem: tuple[str, ...] = ()
        if manager is not None and (final := manager.final_error) is not None:
            state, problem = "fatal", (f"{final}; close the producer and make a new one",)
        linger = (config.linger_ms or 0) / 1000
        return HealthFacts(
            client_id=client_id,
            state=state,
            unusable=problem or ((_UNUSABLE[state],) if state in _UNUSABLE else ()),
            connections=self._client.connections(),
            leaders=self._memory_quota.leaders(),
            brokers=metadata.snapshot.brokers,
            peers=tuple(metadata.peers),
            topics=metadata.topic_count,
            failing=self._topic_outcomes.failing,
            topic_errors=metadata.errors,
            leaderless=metadata.snapshot.leaderless,
            foreign=metadata.foreign,
            oldest_sent=min(sent, default=None),
            oldest_error=None if oldest is None else oldest.last_error,
            abortable=manager.error if failed and manager is not None else None,
            batches=len(self._batches),
            pending_records=len(self._pending),
            memory_used=1 - self._accumulator.free_memory / config.buffer_memory,
            metadata_updated=metadata.last_full_update,
            stalled_after=stalled_after(linger, config.delivery_timeout_ms / 1000),
        )


def health_of(client_id: str, lifecycle: Lifecycle, source: HealthSource | None) -> Health:
    """The health of a producer in any state; None: it has no parts."""
    state = str(lifecycle)
    if lifecycle.forked:
        state = "forked"
    elif state in ("started", "closing") and lifecycle.loop.is_closed():
        return Health(client_id, "broken", False, problems=(_NO_LOOP,))
    if source is not None and state in ("started", "closing"):
        return source.health(client_id, state)
    why = str(lifecycle.broken) if state == "broken" else _UNUSABLE.get(state, state)
    return Health(client_id, state, False, problems=(why,))
