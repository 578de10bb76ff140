"""The mock producer keeps the contract of producers."""

from __future__ import annotations

import pytest

from tests.support.contract import (
    CoordinatorContract,
    HookContract,
    MockKit,
    OutcomeContract,
    SendingContract,
    TransactionContract,
)


@pytest.fixture
def kit() -> MockKit:
    """Mock producers."""
    return MockKit()


class TestSending(SendingContract):
    """Records that nothing disturbs."""


class TestHooks(HookContract):
    """Serializers, partitioners and interceptors."""


class TestCoordinators(CoordinatorContract):
    """Fencing, and consumed offsets."""


class TestTransactions(TransactionContract):
    """Transactions."""


class TestOutcomes(OutcomeContract):
    """Records that fail, or are held."""
