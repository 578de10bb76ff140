"""The facts of a producer's health, read from its parts by any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioproducer.engine.core.health import Health, HealthFacts, assess, stalled_after
from aioproducer.engine.core.lifecycle import Lifecycle

if TYPE_CHECKING:
    from aioproducer.engine.core.engine import Engine

_ATTEMPTS: Final = 20
"""A dictionary that the event loop changes at the same moment makes the reading begin again."""

_UNUSABLE: Final = {
    "not started": "the producer was not started",
    "closing": "the producer is being closed",
    "closed": "the producer is closed; make a new one",
    "forked": "the producer was made in another process (before a fork); make one in each process",
}

_NO_LOOP: Final = "the event loop of the producer was closed; make a new one"


def health_of(client_id: str, lifecycle: Lifecycle, engine: Engine | None) -> Health:
    """The health of a producer in any state; None: it has no parts."""
    state = str(lifecycle)
    if lifecycle.forked:
        state = "forked"
    elif state in ("started", "closing") and lifecycle.loop.is_closed():
        return Health(client_id, "broken", False, problems=(_NO_LOOP,))
    if engine is None or state not in ("started", "closing"):
        why = str(lifecycle.broken) if state == "broken" else _UNUSABLE.get(state, state)
        return Health(client_id, state, False, problems=(why,))
    for _ in range(_ATTEMPTS):
        try:
            return assess(_facts(client_id, state, engine), engine.clock.outside())
        except RuntimeError:  # the event loop has changed what is read
            continue
    return Health(client_id, state, None, problems=("the health can't be read now",))


def _facts(client_id: str, state: str, engine: Engine) -> HealthFacts:
    """The state of the parts. Nothing here waits, or changes anything."""
    config, client, metadata = engine.config, engine.client, engine.metadata
    accumulator = engine.accumulator
    batches, pending = accumulator.batches, accumulator.pending
    memory, outcomes = accumulator.memory_quota, accumulator.topic_outcomes
    manager = None if engine.transactions is None else engine.transactions.manager
    oldest, sent = batches.oldest, list[float]()
    if oldest is not None:
        sent.append(batches.sent_since(oldest))
    if (first := pending.oldest) is not None:
        sent.append(first.sent)
    problem: tuple[str, ...] = ()
    if manager is not None and (final := manager.final_error) is not None:
        state, problem = "fatal", (f"{final}; close the producer and make a new one",)
    return HealthFacts(
        client_id=client_id,
        state=state,
        unusable=problem or ((_UNUSABLE[state],) if state in _UNUSABLE else ()),
        connections=client.connections(),
        leaders=memory.leaders(),
        brokers=metadata.snapshot.brokers,
        peers=tuple(metadata.peers),
        topics=metadata.topic_count,
        failing=outcomes.failing,
        topic_errors=metadata.errors,
        leaderless=metadata.snapshot.leaderless,
        foreign=metadata.foreign,
        oldest_sent=min(sent, default=None),
        oldest_error=None if oldest is None else oldest.last_error,
        abortable=None if manager is None else manager.abortable_error,
        batches=len(batches),
        pending_records=len(pending),
        memory_used=1 - accumulator.free_memory / config.buffer_memory,
        metadata_updated=metadata.last_full_update,
        stalled_after=stalled_after(
            (config.linger_ms or 0) / 1000, config.delivery_timeout_ms / 1000
        ),
    )
