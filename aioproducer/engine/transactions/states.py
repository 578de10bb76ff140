"""The states of a transactional producer, and the events that lead from one to another.

Source: the ``State`` of Kafka's ``TransactionManager``. The diagram in
``docs/explanation/architecture.md`` is drawn from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The states of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    """The coordinator is asked for the producer id and a new epoch."""
    READY = "ready"
    """No transaction is open."""
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    """The open transaction can only be aborted."""
    FATAL_ERROR = "fatal error"
    """There will be no transaction any more."""


State = TransactionState

TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionState, str]]] = {
    State.UNINITIALIZED: {
        State.INITIALIZING: "init_transactions()",
    },
    State.INITIALIZING: {
        State.READY: "producer id and epoch assigned",
        State.FATAL_ERROR: "refused",
    },
    State.READY: {
        State.IN_TRANSACTION: "begin_transaction()",
        State.INITIALIZING: "begin_transaction(shared=True) in an epoch that was used",
        State.FATAL_ERROR: "another cluster took the place of the producer's",
    },
    State.IN_TRANSACTION: {
        State.COMMITTING: "commit_transaction()",
        State.ABORTING: "abort_transaction()",
        State.ABORTABLE_ERROR: "a record or a request failed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.COMMITTING: {
        State.READY: "committed",
        State.INITIALIZING: "committed, and a new epoch is needed",
        State.ABORTABLE_ERROR: "a record or a request failed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.ABORTABLE_ERROR: {
        State.ABORTING: "abort_transaction()",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.ABORTING: {
        State.READY: "aborted",
        State.INITIALIZING: "aborted, and a new epoch is needed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.FATAL_ERROR: {},
}
"""The events that lead from a state to another one; there are no other ways."""


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.UNINITIALIZED.name}"]
    for source, targets in TRANSITIONS.items():
        lines += [f"    {source.name} --> {target.name}: {why}" for target, why in targets.items()]
    return "\n".join(lines)
