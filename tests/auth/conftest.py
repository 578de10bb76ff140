"""A real KDC for the session. Without one tests are skipped, loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from aioproducer.testing.kerberos import KerberosRealm, KerberosUnavailableError
from tests.auth.requirement import say_that_there_is_no_kerberos


def started(stack: ExitStack, lifetime: int) -> KerberosRealm:
    try:
        import gssapi  # noqa: F401

        return stack.enter_context(KerberosRealm(lifetime=lifetime))
    except (ImportError, KerberosUnavailableError) as error:
        say_that_there_is_no_kerberos(error)


@pytest.fixture(scope="session")
def shared_realm() -> Iterator[KerberosRealm]:
    with ExitStack() as stack:
        yield started(stack, 3600)


@pytest.fixture
def realm(shared_realm: KerberosRealm, monkeypatch: pytest.MonkeyPatch) -> KerberosRealm:
    """Shared: make principals of your own, leave its KDC alone. This process is in the realm."""
    join(shared_realm, monkeypatch)
    return shared_realm


@pytest.fixture
def new_realm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], KerberosRealm]]:
    """A realm of the test's own, by the lifetime of its tickets in seconds."""
    with ExitStack() as stack:

        def start(lifetime: int) -> KerberosRealm:
            realm = started(stack, lifetime)
            join(realm, monkeypatch)
            return realm

        yield start


def join(realm: KerberosRealm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.configuration))
    monkeypatch.setenv("KRB5RCACHENAME", "none:")  # acceptors leave no file behind
    for name in ("KRB5CCNAME", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME"):
        monkeypatch.delenv(name, raising=False)
