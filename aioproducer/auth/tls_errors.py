"""Failed TLS handshakes in words: what happened, and which option or file to look at.

A refusal, by either side, is final (:class:`SslAuthenticationError`). A connection that broke, or
brought bytes that make no sense, passes (:class:`BrokerConnectionError`): the next one may work.

In TLS 1.3 a broker refuses a client's certificate after the client's handshake has ended; it is an
error of the first read then.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Final, TypeAlias

from aioproducer.auth.tls import STRICT, CipherSuiteError, TlsOptions
from aioproducer.errors import BrokerConnectionError, SslAuthenticationError
from aioproducer.foundation.logs import duration

__all__ = ["explain_tls"]

TlsError: TypeAlias = SslAuthenticationError | BrokerConnectionError

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(\w+)")

_NO_TLS: Final = frozenset(
    {
        "BAD_RECORD_TYPE",
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "PACKET_LENGTH_TOO_LONG",
        "RECORD_TOO_SMALL",
        "UNKNOWN_PROTOCOL",
        "WRONG_VERSION_NUMBER",
    }
)
_VERSIONS: Final = frozenset(
    {"NO_PROTOCOLS_AVAILABLE", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "WRONG_SSL_VERSION"}
)
_CIPHERS: Final = frozenset(
    {"NO_CIPHERS_AVAILABLE", "UNKNOWN_CIPHER_RETURNED", "WRONG_CIPHER_RETURNED"}
)
_WEAK: Final = frozenset(
    {
        "CA_KEY_TOO_SMALL",
        "CA_MD_TOO_WEAK",
        "DH_KEY_TOO_SMALL",
        "EE_KEY_TOO_SMALL",
        "UNSAFE_LEGACY_RENEGOTIATION_DISABLED",
        "WRONG_SIGNATURE_TYPE",
    }
)

_OF_IDENTITY: Final = {
    "BAD_CERTIFICATE": "the client sent no certificate, or an unusable one",
    "CERTIFICATE_EXPIRED": "the client certificate has expired, or isn't valid yet",
    "CERTIFICATE_REQUIRED": "the broker requires a client certificate, but got none",
    "CERTIFICATE_REVOKED": "the client certificate was revoked",
    "CERTIFICATE_UNKNOWN": "the broker doesn't accept the client certificate",
    "UNKNOWN_CA": "the broker doesn't trust the authority of the client certificate",
    "UNSUPPORTED_CERTIFICATE": "the broker doesn't support this kind of client certificate",
    "ACCESS_DENIED": "the broker denies access to the client certificate",
    "DECRYPT_ERROR": "the client's signature does not match its certificate",
}
"""Alerts of a broker about the client's certificate."""

_HANDSHAKE_FAILURE: Final = (
    "the two sides have no TLS version and cipher suite in common, or the broker "
    "requires a client certificate"
)
_VERSION_ADVICE: Final = (
    "ssl_enabled_protocols and the broker's ssl.enabled.protocols have no TLS version "
    "in common; TLSv1.2 is the oldest that this client supports"
)
_SUITES_ADVICE: Final = (
    "Compare ssl_cipher_suites and ssl_enabled_protocols with those of the broker's listener"
)

_DATES: Final = {9: "isn't valid yet", 10: "has expired"}
_HOST_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNTRUSTED: Final = {
    2: "an authority above its certificate isn't trusted here",
    7: "a certificate of it is signed by another key than that of the authority trusted here, "
    "which has the same name",
    18: "its certificate is self-signed, and isn't trusted here",
    19: "the root of its certificate isn't trusted here",
    20: "the authority of its certificate isn't trusted here, or it doesn't send all certificates "
    "between its own and the root",
    21: "the authority of its certificate isn't trusted here",
}
_OF_THE_BROKER: Final = {
    24: "a certificate above its own isn't that of an authority",
    26: "its certificate isn't one for servers (extended key usage)",
    66: "the key of its certificate is too short",
    67: "the key of an authority above its certificate is too short",
    68: "a certificate of it is signed with a hash that is too weak",
    79: "a certificate above its own isn't that of an authority",
}
_REVOKED: Final = 23
_OF_REVOCATION_LISTS: Final = {
    3: "lacks the list of an authority of the broker's certificate; it needs a list for each",
    11: "contains a list that isn't valid yet; check this machine's clock as well",
    12: "contains an expired list; put the authority's newest one there",
}
"""OpenSSL's codes of X509_verify_cert."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Everything that is known when a handshake failed."""

    peer: object
    host: str
    options: TlsOptions
    timeout: float | None
    secured: bool

    def final(self, what: str, advice: str = "") -> SslAuthenticationError:
        return SslAuthenticationError(f"{self.peer}: {what}{f'. {advice}' if advice else ''}")

    def passing(self, what: str, advice: str = "") -> BrokerConnectionError:
        return BrokerConnectionError(f"{self.peer}: {what}{f'. {advice}' if advice else ''}")


def explain_tls(
    error: BaseException,
    peer: object,
    *,
    host: str,
    options: TlsOptions,
    timeout: float | None = None,
    secured: bool = False,
) -> TlsError:
    """The meaning of ``error``, raised by ssl or asyncio, for the user.

    ``peer``: the broker, as messages call it. ``host``: the name that its certificate has to have.
    ``timeout``: seconds that the handshake had. ``secured``: the handshake had ended here, but the
    broker had answered nothing yet.
    """
    failure = _Failure(peer, host, options, timeout, secured)
    match error:
        case ssl.SSLCertVerificationError():
            return _distrust(failure, error)
        case CipherSuiteError():
            return failure.final(
                f"{error.strerror}, a cipher suite that is not in ssl_cipher_suites", _SUITES_ADVICE
            )
        case TimeoutError():
            return _too_slow(failure)
        case ConnectionAbortedError() if "taking longer" in str(error):  # asyncio's own words
            return _too_slow(failure)
        case ConnectionRefusedError():
            return failure.passing(os.strerror(error.errno) if error.errno else str(error))
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | EOFError() | ConnectionError():
            return _closed(failure)
        case ssl.SSLError():
            return _tls_error(failure, error)
        case ValueError():
            return failure.final(f"{host!r} can't be the name of a host in TLS ({error})")
    return failure.passing(str(getattr(error, "strerror", None) or error))


def _too_slow(failure: _Failure) -> TlsError:
    within = "" if failure.timeout is None else f" within {duration(failure.timeout)}"
    return failure.passing(
        f"accepted the connection, but did not complete the TLS handshake{within}",
        "Check that the port is a TLS listener. A slow broker needs a longer timeout",
    )


def _closed(failure: _Failure) -> TlsError:
    if failure.secured:
        return failure.passing(
            "closed the connection after the TLS handshake, before any response",
            f"If this repeats, the broker may refuse the client certificate: {_identity(failure)}",
        )
    return failure.passing(
        "closed the connection in the TLS handshake",
        "If this repeats: the port may not speak TLS (see security_protocol), the "
        "broker may have no version or cipher suite in common with "
        "ssl_enabled_protocols and ssl_cipher_suites, or it may refuse the client's "
        f"certificate: {_identity(failure)}",
    )


def _tls_error(failure: _Failure, error: ssl.SSLError) -> TlsError:
    reason = getattr(error, "reason", None) or ""  # errors not raised by OpenSSL have none
    if alert := _ALERT.fullmatch(reason):
        return _refused(failure, alert[1])
    if reason in _NO_TLS and not failure.secured:
        return failure.final(
            "sent a response that isn't TLS",
            "The port doesn't speak TLS, or isn't Kafka's: use the port of the TLS "
            "listener, or security_protocol PLAINTEXT or SASL_PLAINTEXT",
        )
    if reason in _VERSIONS:
        return failure.final("chose a version of TLS that isn't enabled here", _VERSION_ADVICE)
    if reason in _CIPHERS:
        return failure.final("chose a cipher suite that isn't enabled here", _SUITES_ADVICE)
    if reason in _WEAK:
        return failure.final(
            f"uses cryptography that OpenSSL refuses as too weak ({reason})",
            "The broker needs new keys and certificates",
        )
    where = "TLS stream" if failure.secured else "TLS handshake"
    return failure.passing(f"the {where} is damaged ({reason or error})")


def _refused(failure: _Failure, alert: str) -> TlsError:
    """The broker ended the handshake with an alert."""
    said = f"refused the TLS connection (alert {alert.lower()})"
    if alert in _OF_IDENTITY:
        return failure.final(f"{said}: {_OF_IDENTITY[alert]}", _sentence(_identity(failure)))
    if alert == "HANDSHAKE_FAILURE":
        return failure.final(
            f"{said}: {_HANDSHAKE_FAILURE}", f"{_SUITES_ADVICE}; {_identity(failure)}"
        )
    if alert == "PROTOCOL_VERSION":
        return failure.final(said, _VERSION_ADVICE)
    if alert == "INSUFFICIENT_SECURITY":
        return failure.final(said, _SUITES_ADVICE)
    if alert == "UNRECOGNIZED_NAME":
        return failure.final(
            f"{said}: the broker doesn't know the name {failure.host!r}",
            "Check bootstrap_servers, and the broker's advertised.listeners",
        )
    return failure.passing(said)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _identity(failure: _Failure) -> str:
    """The source of the client's certificate."""
    options = failure.options
    if options.context is not None:
        return "check the arguments of your ssl_context's load_cert_chain()"
    if options.keystore_location is not None:
        source = f"ssl_keystore_location={options.keystore_location!r}"
    elif options.keystore_key is not None:
        source = "ssl_keystore_certificate_chain"
    else:
        return (
            "none is configured; set ssl_keystore_location, or ssl_keystore_key with "
            "ssl_keystore_certificate_chain"
        )
    return f"check {source}, and the broker's ssl.truststore.*"


def _distrust(failure: _Failure, error: ssl.SSLCertVerificationError) -> TlsError:
    """The client refuses the certificate of the broker."""
    code = getattr(error, "verify_code", 0)
    if code in _UNTRUSTED:
        return failure.final(_UNTRUSTED[code], _trust(failure.options))
    if code in _OF_THE_BROKER:
        return failure.final(_OF_THE_BROKER[code], "The broker needs another certificate")
    if code in _OF_REVOCATION_LISTS:
        return failure.final(
            f"ssl_crl_location={failure.options.crl_location!r} {_OF_REVOCATION_LISTS[code]}"
        )
    if code in _DATES:
        return failure.final(
            f"its certificate, or that of an authority above it, {_DATES[code]}",
            "Check this machine's clock as well",
        )
    if code == _REVOKED:
        return failure.final(
            "its certificate, or that of an authority above it, was revoked",
            f"The list is in ssl_crl_location={failure.options.crl_location!r}",
        )
    if code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return _other_host(failure)
    own = failure.options.context
    strict = STRICT if own is None else own.verify_flags & ssl.VERIFY_X509_STRICT
    return failure.final(
        f"its certificate is refused: {getattr(error, 'verify_message', error)}",
        (
            "From Python 3.13 on, certificates have to follow RFC 5280 (VERIFY_X509_STRICT), and "
            "many do not: issue a better one, or pass an ssl_context without this flag"
        )
        if strict
        else "",
    )


def _other_host(failure: _Failure) -> TlsError:
    return failure.final(
        f"its certificate does not name the host {failure.host!r}",
        "Use one of its names in bootstrap_servers and in the broker's advertised.listeners, or "
        "give the broker a certificate with this name in subjectAltName (the subject's CN does not "
        "count). "
        + (
            "Your ssl_context has check_hostname=True"
            if failure.options.context is not None
            else "ssl_endpoint_identification_algorithm='' would accept any host name"
        ),
    )


def _trust(options: TlsOptions) -> str:
    if options.context is not None:
        return "Load the certificate of its authority into your ssl_context"
    if options.truststore_location is not None:
        return f"Is its authority in ssl_truststore_location={options.truststore_location!r}?"
    if options.truststore_certificates is not None:
        return "Is its authority among ssl_truststore_certificates?"
    return (
        "Only the authorities of this system are trusted: set the broker's own with "
        "ssl_truststore_location (PEM or PKCS#12) or ssl_truststore_certificates (PEM)"
    )
