"""GSSAPI with tickets of a real KDC, at a server that checks them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.auth.gssapi import Gssapi, GssapiExchange
from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    TokenEndpointError,
)
from aioproducer.testing.kerberos import KerberosError, KerberosRealm
from tests.auth.acceptor import Acceptor

pytestmark = pytest.mark.kerberos


@pytest.fixture(scope="session")
def broker(shared_realm: KerberosRealm) -> Path:
    """The keytab of kafka/localhost."""
    return shared_realm.add_service("kafka", "localhost")


@pytest.fixture
def user(realm: KerberosRealm) -> tuple[str, Path]:
    """A principal that has no ticket yet, and its keytab."""
    name = f"user-{uuid.uuid4().hex}"
    return name, realm.add_principal(name)


def begin(mechanism: Gssapi, host: str = "localhost") -> GssapiExchange:
    return asyncio.run(mechanism.begin(host))


def log_in(mechanism: Gssapi, acceptor: Acceptor, host: str = "localhost") -> GssapiExchange:
    exchange = begin(mechanism, host)
    challenge = b""
    while not exchange.complete:
        assert acceptor.chosen is None
        challenge = acceptor.answer(exchange.step(challenge))
    assert challenge == b""
    assert acceptor.chosen == b"\x01\0\0\0"  # no layer, and so no size
    return exchange


def tickets_asked_for(realm: KerberosRealm, name: str) -> int:
    """The tickets that the KDC gave the principal for its key."""
    log = (realm.directory / "kdc.log").read_text().splitlines()
    return sum("AS_REQ" in line and "ISSUE" in line and f" {name}@" in line for line in log)


def test_with_a_keytab(realm: KerberosRealm, broker: Path, user: tuple[str, Path]) -> None:
    name, keytab = user
    mechanism = Gssapi(principal=name, keytab=str(keytab))
    acceptor = Acceptor(broker)
    log_in(mechanism, acceptor)
    assert acceptor.authenticated == f"{name}@{realm.realm}"
    assert acceptor.authorized == acceptor.authenticated.encode()


def test_the_shapes_of_a_login(user: tuple[str, Path]) -> None:
    mechanism: Mechanism = Gssapi(principal=user[0], keytab=str(user[1]))
    exchange: Exchange = asyncio.run(mechanism.begin("localhost"))
    assert mechanism.name == "GSSAPI"
    assert exchange.blocking
    assert not exchange.complete


def test_the_address_of_a_broker_serves_as_its_name(broker: Path, user: tuple[str, Path]) -> None:
    log_in(Gssapi(principal=user[0], keytab=str(user[1])), Acceptor(broker), "127.0.0.1")


def test_without_a_principal_the_keytabs_own_is_taken(
    realm: KerberosRealm, broker: Path, user: tuple[str, Path]
) -> None:
    acceptor = Acceptor(broker)
    log_in(Gssapi(keytab=str(user[1])), acceptor)
    assert acceptor.authenticated == f"{user[0]}@{realm.realm}"


@pytest.mark.parametrize("default", [False, True])
def test_with_a_ticket_cache(
    default: bool,
    realm: KerberosRealm,
    broker: Path,
    user: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / "cache"
    if default:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    mechanism = Gssapi(ticket_cache=None if default else str(cache))
    with pytest.raises(SaslAuthenticationFailedError, match=r"the ticket cache .*\(klist\)"):
        begin(mechanism).step(b"")
    realm.kinit(*user, cache)
    acceptor = Acceptor(broker)
    log_in(mechanism, acceptor)  # the cache is read anew for each login
    assert acceptor.authenticated == f"{user[0]}@{realm.realm}"


def test_the_keytab_stands_in_for_a_ticket_cache_without_tickets(
    broker: Path, user: tuple[str, Path], tmp_path: Path
) -> None:
    name, keytab = user
    mechanism = Gssapi(principal=name, keytab=str(keytab), ticket_cache=str(tmp_path / "none"))
    acceptor = Acceptor(broker)
    log_in(mechanism, acceptor)
    assert acceptor.authenticated.startswith(name)


def test_many_logins_ask_for_one_ticket(
    realm: KerberosRealm, broker: Path, user: tuple[str, Path]
) -> None:
    name, keytab = user
    mechanism = Gssapi(principal=name, keytab=str(keytab))
    another = Gssapi(principal=name, keytab=str(keytab))  # of another producer
    assert tickets_asked_for(realm, name) == 0
    with ThreadPoolExecutor(8) as pool:
        logins = [pool.submit(log_in, mechanism, Acceptor(broker)) for _ in range(20)]
        assert all(login.result().complete for login in logins)
    log_in(another, Acceptor(broker))
    assert tickets_asked_for(realm, name) == 1


def wait_for_the_end_of(mechanism: Gssapi) -> None:
    from gssapi.raw.misc import GSSError

    held = mechanism.credentials()
    deadline = time.monotonic() + 60
    with suppress(GSSError):
        while held.lifetime > 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_tickets_are_got_anew_when_they_end(
    new_realm: Callable[[int], KerberosRealm], tmp_path: Path
) -> None:
    """With a keytab by us; in a cache by somebody else, who is told so."""
    realm = new_realm(2)
    broker, keytab = realm.add_service("kafka", "localhost"), realm.add_principal("alice")
    by_keytab = Gssapi(principal="alice", keytab=str(keytab))
    by_cache = Gssapi(ticket_cache=str(tmp_path / "cache"))
    realm.kinit("alice", keytab, tmp_path / "cache")
    log_in(by_keytab, Acceptor(broker))
    log_in(by_cache, Acceptor(broker))
    wait_for_the_end_of(by_keytab)
    log_in(by_keytab, Acceptor(broker))
    assert tickets_asked_for(realm, "alice") >= 3
    with pytest.raises(SaslAuthenticationFailedError, match=r"expired.*kinit|klist"):
        begin(by_cache).step(b"")
    realm.kinit("alice", keytab, tmp_path / "cache")
    log_in(by_cache, Acceptor(broker))


def test_a_kdc_that_is_down_is_a_passing_error(new_realm: Callable[[int], KerberosRealm]) -> None:
    realm = new_realm(3600)
    broker, keytab = realm.add_service("kafka", "localhost"), realm.add_principal("alice")
    mechanism = Gssapi(principal="alice", keytab=str(keytab))
    realm.stop_kdc()
    with pytest.raises(TokenEndpointError, match="no KDC answers") as caught:
        begin(mechanism).step(b"")
    assert caught.value.retriable
    realm.start_kdc()
    log_in(mechanism, Acceptor(broker))
    realm.stop_kdc()
    log_in(mechanism, Acceptor(broker))  # while the tickets last, nobody is asked


@pytest.mark.parametrize(
    ("service", "host", "principal", "keytab", "said"),
    [
        ("kafak", "localhost", "", "", "kafak@localhost failed: .*sasl_kerberos_service_name"),
        ("kafka", "elsewhere.invalid", "", "", "kafka@elsewhere.invalid failed: .*host name"),
        ("kafka", "localhost", "nobody", "", "the keytab .* for nobody"),
        ("kafka", "localhost", "", "/nonexistent/keytab", "the keytab /nonexistent/keytab"),
    ],
)
def test_a_login_without_a_ticket_says_what_is_wrong(
    service: str, host: str, principal: str, keytab: str, said: str, user: tuple[str, Path]
) -> None:
    mechanism = Gssapi(service, principal=principal or user[0], keytab=keytab or str(user[1]))
    exchange = begin(mechanism, host)
    with pytest.raises(SaslAuthenticationFailedError, match=said):
        exchange.step(b"")
    assert not exchange.complete


def test_a_principal_whose_key_was_changed(realm: KerberosRealm, user: tuple[str, Path]) -> None:
    name, keytab = user
    realm.change_key(name)
    with pytest.raises(SaslAuthenticationFailedError, match="create a new keytab"):
        begin(Gssapi(principal=name, keytab=str(keytab))).step(b"")


def agreed(user: tuple[str, Path], acceptor: Acceptor) -> GssapiExchange:
    """A login whose context stands; the server's offer comes next."""
    exchange = begin(Gssapi(principal=user[0], keytab=str(user[1])))
    assert exchange.step(acceptor.answer(exchange.step(b""))) == b""
    return exchange


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        (b"\x06\x00\x10\x00", "requires a security layer"),
        (b"\x00\x00\x00\x00", "requires a security layer"),
        (b"\x01", "has 1 bytes, not 4"),
        (b"", "has 0 bytes, not 4"),
        (b"\x01\x00\x00\x00more", "has 8 bytes, not 4"),
    ],
)
def test_a_server_with_a_wrong_offer(
    offer: bytes, said: str, broker: Path, user: tuple[str, Path]
) -> None:
    acceptor = Acceptor(broker, offer=offer)
    exchange = agreed(user, acceptor)
    with pytest.raises(SaslAuthenticationFailedError, match=said):
        exchange.step(acceptor.answer(b""))
    assert not exchange.complete


def test_a_server_that_offers_all_layers_gets_none(broker: Path, user: tuple[str, Path]) -> None:
    acceptor = Acceptor(broker, offer=b"\x07\x00\x10\x00")
    exchange = agreed(user, acceptor)
    acceptor.answer(exchange.step(acceptor.answer(b"")))
    assert acceptor.chosen == b"\x01\0\0\0"


def test_an_offer_that_is_not_signed(broker: Path, user: tuple[str, Path]) -> None:
    exchange = agreed(user, Acceptor(broker))
    with pytest.raises(SaslAuthenticationFailedError):
        exchange.step(b"\x01\x00\x00\x00")
    other = Acceptor(broker)
    agreed(user, other)
    exchange = agreed(user, Acceptor(broker))
    with pytest.raises(SaslAuthenticationFailedError):
        exchange.step(other.answer(b""))  # signed, in another login


def test_a_server_without_the_services_key(
    realm: KerberosRealm, broker: Path, user: tuple[str, Path]
) -> None:
    """It can't read the ticket, and what it has from other logins is no proof."""
    mechanism = Gssapi(principal=user[0], keytab=str(user[1]))
    recorded = Acceptor(broker).answer(begin(mechanism).step(b""))
    exchange = begin(mechanism)
    exchange.step(b"")
    with pytest.raises(SaslAuthenticationFailedError):
        exchange.step(recorded)
    with pytest.raises(IllegalSaslStateError):
        exchange.step(b"")


class OneSided:
    """A context that stands, though the server has proved nothing."""

    complete = True
    actual_flags: tuple[object, ...] = ()

    def step(self, token: bytes) -> None:
        """Takes what comes."""


def test_a_context_must_be_mutual(user: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = begin(Gssapi(principal=user[0], keytab=str(user[1])))
    exchange.step(b"")
    monkeypatch.setattr(exchange, "_context", OneSided())
    with pytest.raises(SaslAuthenticationFailedError, match="did not prove"):
        exchange.step(b"anything")
    assert not exchange.complete


def test_a_server_that_is_done_too_early_or_goes_on(broker: Path, user: tuple[str, Path]) -> None:
    mechanism = Gssapi(principal=user[0], keytab=str(user[1]))
    exchange = begin(mechanism)
    exchange.step(b"")
    with pytest.raises(IllegalSaslStateError, match="an empty challenge"):
        exchange.step(b"")
    assert not exchange.complete
    exchange = agreed(user, Acceptor(broker))
    with pytest.raises(IllegalSaslStateError, match="an empty challenge"):
        exchange.step(b"")
    with pytest.raises(IllegalSaslStateError):
        begin(mechanism).step(b"first")
    done = log_in(mechanism, Acceptor(broker))
    with pytest.raises(IllegalSaslStateError):
        done.step(b"more")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    early=st.booleans(), noise=st.binary(max_size=60), at=st.integers(0, 200), keep=st.booleans()
)
def test_arbitrary_bytes_of_a_server_are_an_authentication_error(
    early: bool, noise: bytes, at: int, keep: bool, broker: Path, user: tuple[str, Path]
) -> None:
    acceptor = Acceptor(broker)
    if early:
        exchange = begin(Gssapi(principal=user[0], keytab=str(user[1])))
        genuine = acceptor.answer(exchange.step(b""))
    else:
        exchange = agreed(user, acceptor)
        genuine = acceptor.answer(b"")
    damaged = genuine[:at] + noise + (genuine[at:] if keep else b"")
    if damaged != genuine:
        with suppress(AuthenticationError):
            exchange.step(damaged)
        assert not exchange.complete


def test_a_realm_leaves_nothing(new_realm: Callable[[int], KerberosRealm]) -> None:
    realm = new_realm(60)
    realm.add_principal("once")
    with pytest.raises(KerberosError, match="Principal or policy already exists"):
        realm.add_principal("once")
    assert realm.configuration.exists()
    realm.stop()
    realm.stop()
    assert not realm.directory.exists()
