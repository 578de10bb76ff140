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


_S = TransactionState

TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionState, str]]] = {
    _S.UNINITIALIZED: {
        _S.INITIALIZING: "init_transactions()",
    },
    _S.INITIALIZING: {
        _S.READY: "producer id and epoch assigned",
        _S.FATAL_ERROR: "refused",
    },
    _S.READY: {
        _S.IN_TRANSACTION: "begin_transaction()",
        _S.INITIALIZING: "begin_transaction(shared=True) in an epoch that was used",
    },
    _S.IN_TRANSACTION: {
        _S.COMMITTING: "commit_transaction()",
        _S.ABORTING: "abort_transaction()",
        _S.ABORTABLE_ERROR: "a record or a request failed",
        _S.FATAL_ERROR: "fenced or refused",
    },
    _S.COMMITTING: {
        _S.READY: "committed",
        _S.INITIALIZING: "committed, and a new epoch is needed",
        _S.ABORTABLE_ERROR: "a record or a request failed",
        _S.FATAL_ERROR: "fenced or refused",
    },
    _S.ABORTABLE_ERROR: {
        _S.ABORTING: "abort_transaction()",
        _S.FATAL_ERROR: "fenced or refused",
    },
    _S.ABORTING: {
        _S.READY: "aborted",
        _S.INITIALIZING: "aborted, and a new epoch is needed",
        _S.FATAL_ERROR: "fenced or refused",
    },
    _S.FATAL_ERROR: {},
}
"""The events that lead from a state to another one; there are no other ways."""


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {_S.UNINITIALIZED.name}"]
    for source, targets in TRANSITIONS.items():
        lines += [f"    {source.name} --> {target.name}: {why}" for target, why in targets.items()]
    return "\n".join(lines)
