"""Real handshakes, good and bad, and what the user is told of each."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography.x509.oid import ExtendedKeyUsageOID

from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.tls_errors import explain_tls
from aioproducer.engine.network.transport import SocketSettings, open_transport
from aioproducer.errors import BrokerConnectionError, SslAuthenticationError
from aioproducer.foundation.secret import Secret
from aioproducer.model import Node
from aioproducer.testing.certificates import Authority, Certificate
from tests.unit.auth.tls_servers import PATIENT, PEER, ServerThread, TlsServer, talk

DAY = timedelta(days=1)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
NAMES = {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}


@pytest.fixture(params=VERSIONS, ids=list(NAMES.values()))
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    chosen: ssl.TLSVersion = request.param
    return chosen


def with_identity(authority: Authority, client: Certificate) -> TlsOptions:
    return TlsOptions(
        truststore_type="PEM",
        truststore_certificates=authority.pem,
        keystore_type="PEM",
        keystore_key=Secret(client.key_pem()),
        keystore_certificate_chain=client.chain_pem,
    )


@pytest.mark.parametrize(
    ("host", "asked"),
    [("localhost", "localhost"), ("localhost.", "localhost"), ("127.0.0.1", None), ("::1", None)],
)
async def test_a_name_or_an_address_is_verified(
    authority: Authority,
    broker: Certificate,
    version: ssl.TLSVersion,
    host: str,
    asked: str | None,
) -> None:
    with TlsServer(broker.server_context(version=version)) as server:
        options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
        assert await talk(server, options, host=host) == b"ping"
        assert server.names == [asked]


@pytest.mark.parametrize("host", ["", ".", "..", "%x", "[]", "-"])
@pytest.mark.parametrize("own_context", [False, True])
async def test_a_host_without_a_name_is_refused_before_a_byte_is_sent(
    authority: Authority, host: str, own_context: bool
) -> None:
    """asyncio takes an empty name for none, and then every certificate of the authority will do."""
    options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
    if own_context:
        options = TlsOptions(context=ssl.create_default_context(cadata=authority.pem))

    async def resolve(_: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        node = Node(1, host, listener.getsockname()[1])
        settings = SocketSettings(-1, -1, tls=TlsContexts(options), resolve=resolve)
        with pytest.raises(SslAuthenticationError, match="no name that a certificate could prove"):
            await open_transport(node, settings, PATIENT, asyncio.Protocol)
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_client_and_broker_show_certificates_with_an_authority_between(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    between = Authority("Between", under=authority)
    server_context = between.issue("broker").server_context(trusts=authority, version=version)
    with TlsServer(server_context) as server:
        assert await talk(server, with_identity(authority, between.issue("client-7"))) == b"ping"
        assert server.clients == ["client-7"]


async def test_what_is_in_the_truststore_is_trusted_though_it_is_no_root(
    stranger: Authority, version: ssl.TLSVersion
) -> None:
    """As in Java: an authority below an unknown root, or the broker's own certificate."""
    between = Authority("Between", under=stranger)
    certificate = between.issue("broker")
    own = Certificate(certificate.certificate, certificate.key).chain_pem
    with TlsServer(certificate.server_context(version=version)) as server:
        for trusted in (between.pem, own):
            options = TlsOptions(truststore_type="PEM", truststore_certificates=trusted)
            assert await talk(server, options) == b"ping"


BROKERS: dict[str, tuple[Callable[[Authority, Authority], Certificate], str, str]] = {
    "expired": (
        lambda ours, _: ours.issue(begins=-3 * DAY, ends=-DAY),
        "localhost",
        "its certificate, or that of an authority above it, has expired. Check this machine",
    ),
    "not yet valid": (
        lambda ours, _: ours.issue(begins=DAY),
        "localhost",
        "its certificate, or that of an authority above it, isn't valid yet. Check this machine",
    ),
    "another host": (
        lambda ours, _: ours.issue(hosts=["other.example"]),
        "localhost",
        "its certificate does not name the host 'localhost'. Use one of its names in "
        "bootstrap_servers and in the broker's advertised.listeners.*"
        "ssl_endpoint_identification_algorithm=''",
    ),
    "another address": (
        lambda ours, _: ours.issue(hosts=["localhost", "127.0.0.2"]),
        "127.0.0.1",
        "its certificate does not name the host '127.0.0.1'",
    ),
    "unknown authority": (
        lambda _, another: another.issue(),
        "localhost",
        "the authority of its certificate isn't trusted here, or it doesn't send all .*"
        "Is its authority among ssl_truststore_certificates?",
    ),
    "authority between not sent": (
        lambda ours, _: Certificate(
            (below := Authority("Between", under=ours).issue()).certificate, below.key
        ),
        "localhost",
        "it doesn't send all certificates between its own and the root",
    ),
    "self-signed": (
        lambda _, another: Certificate(another.certificate, another.key),
        "localhost",
        "its certificate is self-signed, and isn't trusted here",
    ),
    "unknown root sent": (
        lambda _, another: Certificate(
            (made := another.issue()).certificate, made.key, (another.certificate,)
        ),
        "localhost",
        "the root of its certificate isn't trusted here",
    ),
    "forged authority": (
        lambda ours, _: Authority("Our CA").issue(key_identifiers=False),
        "localhost",
        "signed by another key than that of the authority trusted here, which has the same name"
        "|Missing Authority Key Identifier",
    ),
    "for clients only": (
        lambda ours, _: ours.issue(purposes=[ExtendedKeyUsageOID.CLIENT_AUTH]),
        "localhost",
        "its certificate isn't one for servers",
    ),
}


@pytest.mark.parametrize("case", BROKERS)
async def test_a_certificate_of_a_broker_that_is_refused(
    authority: Authority, stranger: Authority, version: ssl.TLSVersion, case: str
) -> None:
    make, host, said = BROKERS[case]
    with TlsServer(make(authority, stranger).server_context(version=version)) as server:
        options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
        with pytest.raises(SslAuthenticationError, match=f"^{re.escape(PEER)}: .*({said})"):
            await talk(server, options, host=host)


async def test_any_host_is_accepted_if_the_user_says_so_but_no_other_authority(
    authority: Authority, stranger: Authority
) -> None:
    options = TlsOptions(
        truststore_type="PEM",
        truststore_certificates=authority.pem,
        endpoint_identification_algorithm="",
    )
    with TlsServer(authority.issue(hosts=["other.example"]).server_context()) as server:
        assert await talk(server, options) == b"ping"
    with (
        TlsServer(stranger.issue().server_context()) as server,
        pytest.raises(SslAuthenticationError, match="isn't trusted here"),
    ):
        await talk(server, options)


async def test_without_a_truststore_the_systems_authorities_count(broker: Certificate) -> None:
    with (
        TlsServer(broker.server_context()) as server,
        pytest.raises(
            SslAuthenticationError,
            match=r"Only the authorities of this system are trusted: .* ssl_truststore_location",
        ),
    ):
        await talk(server, TlsOptions())


CLIENTS: dict[str, tuple[Callable[[Authority, Authority], Certificate | None], str]] = {
    "none": (
        lambda *_: None,
        r"alert (certificate_required|handshake_failure)\).* requires a client certificate.*"
        "[Nn]one is configured; set ssl_keystore_location",
    ),
    "unknown authority": (
        lambda _, another: another.issue("client"),
        r"alert unknown_ca\): the broker doesn't trust the authority of the client certificate. "
        r"Check ssl_keystore_certificate_chain, and the broker's ssl.truststore.\*",
    ),
    "expired": (
        lambda ours, _: ours.issue("client", begins=-3 * DAY, ends=-DAY),
        r"alert certificate_expired\): the client certificate has expired",
    ),
    "for servers only": (
        lambda ours, _: ours.issue("client", purposes=[ExtendedKeyUsageOID.SERVER_AUTH]),
        r"alert unsupported_certificate\): the broker doesn't support this kind",
    ),
}


@pytest.mark.parametrize("case", CLIENTS)
async def test_a_certificate_of_ours_that_the_broker_refuses(
    authority: Authority,
    stranger: Authority,
    broker: Certificate,
    version: ssl.TLSVersion,
    case: str,
) -> None:
    """In TLS 1.3 the alert comes after our side of the handshake has ended."""
    make, said = CLIENTS[case]
    client = make(authority, stranger)
    options = (
        TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
        if client is None
        else with_identity(authority, client)
    )
    with TlsServer(broker.server_context(trusts=authority, version=version)) as server:
        with pytest.raises(SslAuthenticationError, match=said):
            await talk(server, options)
        assert server.clients == []


async def test_a_revoked_certificate_is_refused_if_there_is_a_list(
    tmp_path: Path, authority: Authority, version: ssl.TLSVersion
) -> None:
    revoked, good = authority.issue(), authority.issue()
    crl = tmp_path / "revoked.pem"
    crl.write_text(authority.revoke(revoked))
    looking = TlsOptions(
        truststore_type="PEM", truststore_certificates=authority.pem, crl_location=str(crl)
    )
    with TlsServer(good.server_context(version=version)) as server:
        assert await talk(server, looking) == b"ping"
    with TlsServer(revoked.server_context(version=version)) as server:
        with pytest.raises(SslAuthenticationError, match=f"was revoked. .*{crl}"):
            await talk(server, looking)
        assert (
            await talk(
                server, TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
            )
            == b"ping"
        )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda ours, _: ours.revoke(ends=-DAY), "contains an expired list"),
        (lambda _, another: another.revoke(), "lacks the list of an authority of the broker's"),
    ],
    ids=["expired", "another authority's"],
)
async def test_a_list_that_says_nothing_about_the_broker(
    tmp_path: Path,
    authority: Authority,
    stranger: Authority,
    broker: Certificate,
    make: Callable[[Authority, Authority], str],
    said: str,
) -> None:
    crl = tmp_path / "revoked.pem"
    crl.write_text(make(authority, stranger))
    options = TlsOptions(
        truststore_type="PEM", truststore_certificates=authority.pem, crl_location=str(crl)
    )
    with (
        TlsServer(broker.server_context()) as server,
        pytest.raises(SslAuthenticationError, match=f"ssl_crl_location='{crl}' {said}"),
    ):
        await talk(server, options)


async def test_certificates_beside_a_revocation_list_are_not_trusted(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    crl = tmp_path / "revoked.pem"
    crl.write_text(stranger.pem + stranger.revoke())
    options = TlsOptions(
        truststore_type="PEM", truststore_certificates=authority.pem, crl_location=str(crl)
    )
    with (
        TlsServer(stranger.issue().server_context()) as server,
        pytest.raises(SslAuthenticationError, match="isn't trusted here"),
    ):
        await talk(server, options)


async def test_no_version_in_common(
    authority: Authority, broker: Certificate, version: ssl.TLSVersion
) -> None:
    (other,) = (name for each, name in NAMES.items() if each is not version)
    options = TlsOptions(
        truststore_type="PEM", truststore_certificates=authority.pem, enabled_protocols=(other,)
    )
    with (
        TlsServer(broker.server_context(version=version)) as server,
        pytest.raises(
            SslAuthenticationError,
            match=r"alert protocol_version\).*ssl_enabled_protocols and the broker's",
        ),
    ):
        await talk(server, options)


async def test_no_cipher_suite_in_common(authority: Authority, broker: Certificate) -> None:
    context = broker.server_context(version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    fitting, other = (
        TlsOptions(
            truststore_type="PEM", truststore_certificates=authority.pem, cipher_suites=(suite,)
        )
        for suite in (
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        )
    )
    with TlsServer(context) as server:
        assert await talk(server, fitting) == b"ping"
        with pytest.raises(
            SslAuthenticationError, match=r"alert handshake_failure\).*Compare ssl_cipher_suites"
        ):
            await talk(server, other)


async def test_suites_of_tls_1_3_that_were_not_chosen_are_refused(
    authority: Authority, broker: Certificate
) -> None:
    """OpenSSL's server takes the client's first one, AES with 256 bits."""
    with TlsServer(broker.server_context(version=ssl.TLSVersion.TLSv1_3)) as server:
        good = TlsOptions(
            truststore_type="PEM",
            truststore_certificates=authority.pem,
            cipher_suites=("TLS_AES_256_GCM_SHA384",),
        )
        assert await talk(server, good) == b"ping"
        other = TlsOptions(
            truststore_type="PEM",
            truststore_certificates=authority.pem,
            cipher_suites=("TLS_AES_128_GCM_SHA256",),
        )
        with pytest.raises(
            SslAuthenticationError,
            match="the broker chose TLS_AES_256_GCM_SHA384, a cipher suite that is not in ssl",
        ):
            await talk(server, other)


def plain_http(accepted: socket.socket) -> None:
    accepted.recv(4096)
    accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    accepted.shutdown(socket.SHUT_WR)
    while accepted.recv(4096):
        pass


def closes(accepted: socket.socket) -> None:
    accepted.recv(4096)


def resets(accepted: socket.socket) -> None:
    accepted.recv(10)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stops_within_a_record(accepted: socket.socket) -> None:
    accepted.recv(4096)
    accepted.sendall(b"\x16\x03\x03\x00\x7a\x02\x00\x00")


def sends_nonsense_in_a_record(accepted: socket.socket) -> None:
    accepted.recv(4096)
    accepted.sendall(b"\x16\x03\x03\x00\x04\x99\x00\x00\x00")
    accepted.shutdown(socket.SHUT_WR)
    while accepted.recv(4096):
        pass


def is_silent(accepted: socket.socket) -> None:
    while accepted.recv(4096):
        pass


@pytest.mark.parametrize(
    ("serve", "kind", "said"),
    [
        (plain_http, SslAuthenticationError, "a response that isn't TLS. .* security_protocol"),
        (
            closes,
            BrokerConnectionError,
            "closed the connection in the TLS handshake. .*not speak TLS",
        ),
        (resets, BrokerConnectionError, "closed the connection in the TLS handshake"),
        (stops_within_a_record, BrokerConnectionError, "closed the connection in the TLS handsh"),
        (sends_nonsense_in_a_record, BrokerConnectionError, r"the TLS handshake is damaged \("),
    ],
)
async def test_peers_that_do_not_shake_hands(
    authority: Authority,
    serve: Callable[[socket.socket], None],
    kind: type[Exception],
    said: str,
) -> None:
    options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
    with ServerThread(serve) as server, pytest.raises(kind, match=said):
        await talk(server, options)


async def test_a_handshake_that_does_not_end_is_given_up(authority: Authority) -> None:
    options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
    with (
        ServerThread(is_silent) as server,
        pytest.raises(
            BrokerConnectionError,
            match=r"did not complete the TLS handshake within 0\.2 s\. Check that",
        ),
    ):
        await talk(server, options, timeout=0.2)


async def test_a_broker_that_closes_after_the_handshake(
    authority: Authority, broker: Certificate, version: ssl.TLSVersion
) -> None:
    """With a reset, the alert of TLS 1.3 may be lost: the message thinks of it."""
    context = broker.server_context(version=version)

    def shakes_hands_and_resets(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(100)
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    options = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
    with (
        ServerThread(shakes_hands_and_resets) as server,
        pytest.raises(
            BrokerConnectionError,
            match=r"closed the connection after the TLS handshake, before any response. .*none is",
        ),
    ):
        await talk(server, options)


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (plain_http, "a response that isn't TLS"),
        (closes, "closed the connection in the TLS handshake"),
        (resets, "closed the connection in the TLS handshake"),
        (stops_within_a_record, "closed the connection in the TLS handshake"),
        (sends_nonsense_in_a_record, "the TLS handshake is damaged"),
        (is_silent, "did not complete the TLS handshake within"),
        ("another host", "does not name the host 'localhost'"),
        ("no client certificate", r"alert certificate_required\)"),
        ("another suite", "the broker chose TLS_AES_256_GCM_SHA384"),
    ],
)
def test_the_same_on_uvloop(
    authority: Authority,
    broker: Certificate,
    serve: Callable[[socket.socket], None] | str,
    said: str,
) -> None:
    """Its TLS is other code than asyncio's."""
    suites = ("TLS_AES_128_GCM_SHA256",) if serve == "another suite" else ()
    options = TlsOptions(
        truststore_type="PEM", truststore_certificates=authority.pem, cipher_suites=suites
    )
    certificate = authority.issue(hosts=["other"]) if serve == "another host" else broker
    trusts = authority if serve == "no client certificate" else None
    server = (
        TlsServer(certificate.server_context(trusts=trusts))
        if isinstance(serve, str)
        else ServerThread(serve)
    )
    with (
        server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        pytest.raises((SslAuthenticationError, BrokerConnectionError), match=said),
    ):
        runner.run(talk(server, options, timeout=0.3 if serve is is_silent else PATIENT))


async def test_a_context_of_the_users_own(authority: Authority, broker: Certificate) -> None:
    own = ssl.create_default_context(cadata=authority.pem)
    with TlsServer(broker.server_context()) as server:
        assert await talk(server, TlsOptions(context=own)) == b"ping"
        with pytest.raises(SslAuthenticationError, match="into your ssl_context"):
            await talk(server, TlsOptions(context=ssl.create_default_context()))
    other_host = authority.issue(hosts=["other.example"]).server_context()
    with (
        TlsServer(other_host) as server,
        pytest.raises(SslAuthenticationError, match="Your ssl_context has check_hostname=True"),
    ):
        await talk(server, TlsOptions(context=own))


async def test_certificates_that_follow_no_rfc_to_the_letter_are_for_contexts_that_are_not_strict(
    authority: Authority, broker: Certificate
) -> None:
    """Python's own contexts are strict from 3.13 on, and so are ours."""
    strict = ssl.create_default_context(cadata=authority.pem)
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    lenient = ssl.create_default_context(cadata=authority.pem)
    lenient.verify_flags &= ~ssl.VERIFY_X509_STRICT
    ours = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
    with TlsServer(broker.server_context()) as server:
        for options in (TlsOptions(context=strict), ours):
            assert await talk(server, options) == b"ping"
    refused = [TlsOptions(context=strict)]
    accepted = [TlsOptions(context=lenient)]
    (refused if sys.version_info >= (3, 13) else accepted).append(ours)
    with TlsServer(authority.issue(key_identifiers=False).server_context()) as server:
        for options in accepted:
            assert await talk(server, options) == b"ping"
        for options in refused:
            with pytest.raises(
                SslAuthenticationError,
                match=r"Missing Authority Key Identifier.*VERIFY_X509_STRICT",
            ):
                await talk(server, options)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_certificate_that_names_its_host_in_its_subject_alone_is_refused(
    authority: Authority, host: str, version: ssl.TLSVersion
) -> None:
    """RFC 9525. OpenSSL would compare the common name (CN) if there is no subjectAltName."""
    certificate = authority.issue(host, hosts=[])
    with TlsServer(certificate.server_context(version=version)) as server:
        with pytest.raises(
            SslAuthenticationError, match=r"does not name the host .*subjectAltName \(the subject"
        ):
            await talk(
                server,
                TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem),
                host=host,
            )
        any_host = TlsOptions(
            truststore_type="PEM",
            truststore_certificates=authority.pem,
            endpoint_identification_algorithm="",
        )
        assert await talk(server, any_host, host=host) == b"ping"


async def test_files_exchanged_between_two_connections(
    tmp_path: Path, authority: Authority, broker: Certificate
) -> None:
    new_authority = Authority("New CA")
    keystore, truststore = tmp_path / "client.pem", tmp_path / "trusted.pem"
    authority.issue("old").write(keystore)
    truststore.write_text(authority.pem)
    contexts = TlsContexts(
        TlsOptions(keystore_location=str(keystore), truststore_location=str(truststore))
    )
    with TlsServer(broker.server_context(trusts=authority)) as server:
        assert await talk(server, contexts) == b"ping"
        authority.issue("new").write(tmp_path / "next.pem").replace(keystore)
        assert await talk(server, contexts) == b"ping"
        assert server.clients == ["old", "new"]
    with TlsServer(new_authority.issue().server_context()) as server:
        with pytest.raises(SslAuthenticationError, match=f"ssl_truststore_location='{truststore}"):
            await talk(server, contexts)
        truststore.write_text(authority.pem + new_authority.pem)
        assert await talk(server, contexts) == b"ping"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ConnectionRefusedError(111, "x"), BrokerConnectionError, "Connection refused$"),
        (OSError(113, "No route to host"), BrokerConnectionError, "No route to host"),
        (TimeoutError(), BrokerConnectionError, "did not complete the TLS handshake"),
        (ValueError("no"), SslAuthenticationError, "'b' can't be the name of a host in TLS"),
        (asyncio.IncompleteReadError(b"x", 4), BrokerConnectionError, "closed the connection"),
        (ssl.SSLError(1, "odd"), BrokerConnectionError, "the TLS handshake is damaged"),
    ],
)
def test_errors_without_a_handshake(error: Exception, kind: type[Exception], said: str) -> None:
    explained = explain_tls(error, PEER, host="b", options=TlsOptions())
    assert type(explained) is kind
    assert re.match(f"{re.escape(PEER)}: .*{said}", str(explained))


@pytest.mark.parametrize(
    ("reason", "kind", "said"),
    [
        (
            "SSLV3_ALERT_BAD_CERTIFICATE",
            SslAuthenticationError,
            "the client sent no certificate, or",
        ),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", SslAuthenticationError, "doesn't accept the client"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", SslAuthenticationError, "was revoked"),
        ("TLSV1_ALERT_ACCESS_DENIED", SslAuthenticationError, "denies access"),
        ("TLSV1_ALERT_DECRYPT_ERROR", SslAuthenticationError, "does not match its certificate"),
        ("TLSV1_ALERT_INSUFFICIENT_SECURITY", SslAuthenticationError, "ssl_cipher_suites"),
        ("TLSV1_UNRECOGNIZED_NAME", SslAuthenticationError, "doesn't know the name 'b'"),
        ("UNSUPPORTED_PROTOCOL", SslAuthenticationError, "ssl_enabled_protocols"),
        ("WRONG_CIPHER_RETURNED", SslAuthenticationError, "ssl_cipher_suites"),
        ("DH_KEY_TOO_SMALL", SslAuthenticationError, "too weak (DH_KEY_TOO_SMALL)"),
        ("TLSV1_ALERT_INTERNAL_ERROR", BrokerConnectionError, "alert internal_error"),
        ("SSLV3_ALERT_BAD_RECORD_MAC", BrokerConnectionError, "alert bad_record_mac"),
        ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", BrokerConnectionError, "TLS handshake is damaged"),
    ],
)
def test_reasons_that_no_server_here_gives(reason: str, kind: type[Exception], said: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    explained = explain_tls(error, PEER, host="b", options=TlsOptions())
    assert type(explained) is kind
    assert said in str(explained)


def test_damage_after_the_handshake_is_no_plain_text() -> None:
    error = ssl.SSLError(1, "x")
    error.reason = "WRONG_VERSION_NUMBER"
    explained = explain_tls(error, PEER, host="b", options=TlsOptions(), secured=True)
    assert type(explained) is BrokerConnectionError
    assert "the TLS stream is damaged (WRONG_VERSION_NUMBER)" in str(explained)
