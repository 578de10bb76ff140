"""The contract of a producer as tests, which run with several clusters behind the same methods.

A test module has a fixture ``kit`` and subclasses of the classes here.
"""

from __future__ import annotations

from tests.support.contract.kit import Kit, MockKit, ScriptedKit
from tests.support.contract.scripted import OutcomeContract
from tests.support.contract.sending import HookContract, SendingContract
from tests.support.contract.transactions import CoordinatorContract, TransactionContract

__all__ = [
    "CoordinatorContract",
    "HookContract",
    "Kit",
    "MockKit",
    "OutcomeContract",
    "ScriptedKit",
    "SendingContract",
    "TransactionContract",
]
