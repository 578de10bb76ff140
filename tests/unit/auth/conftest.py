"""Certificates that the tests of this directory share."""

from __future__ import annotations

import pytest

from aioproducer.testing.certificates import Authority, Certificate


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("Our CA")


@pytest.fixture(scope="session")
def stranger() -> Authority:
    """An authority that nobody trusts."""
    return Authority("Another CA")


@pytest.fixture(scope="session")
def broker(authority: Authority) -> Certificate:
    return authority.issue("broker")


@pytest.fixture(scope="session")
def client(authority: Authority) -> Certificate:
    return authority.issue("client")
