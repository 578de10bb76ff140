"""The options of TLS, and the context of connections that is made from them.

:class:`TlsOptions` are checked as far as no file is needed (Kafka's ``SslConfigs``, KIP-651).
Cipher suites have names of Java, IANA and OpenSSL. When their files change, new contexts are made.
Python's ssl takes private keys only from files: :func:`private_file` is a temporary one.
"""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

from aioproducer.auth.keystores import (
    Complaint,
    Identity,
    Store,
    identity_of_pem,
    pem_blocks,
    read_identity,
    read_trusted,
    trusted_of_pem,
)
from aioproducer.auth.mechanism import Options
from aioproducer.errors import ConfigError, SslAuthenticationError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.foundation.secret import Secret
from aioproducer.model import has_name

__all__ = ["STRICT", "TlsOptions", "private_file", "CipherSuiteError", "TlsContexts", "server_name"]


STRICT: Final = ssl.VERIFY_X509_STRICT if sys.version_info >= (3, 13) else ssl.VerifyFlags(0)
"""The flag that Python's own contexts have from 3.13 on: certificates follow RFC 5280."""
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS: Final = frozenset({"SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_SECRETS: Final = ("keystore_key", "keystore_password", "key_password", "truststore_password")
_LISTS: Final = ("enabled_protocols", "cipher_suites")
_CERTIFICATES: Final = ("keystore_certificate_chain", "truststore_certificates")
"""They are no secret; Kafka's options have the type of one."""


_TLS13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_NO_SUITES: Final = frozenset({"TLS_EMPTY_RENEGOTIATION_INFO_SCSV"})
"""Signals in the form of a cipher suite; OpenSSL sends them by itself."""

_KEY_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CCM": "AES256-CCM",
}
_TLS12: Final = {
    f"TLS_{exchange}_WITH_{cipher}": f"{begin}{end}"
    for exchange, begin in _KEY_EXCHANGES.items()
    for cipher, end in _CIPHERS.items()
} | {
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
# RFC 5289 and 6655 define no suites with elliptic curves and RSA in CCM.
for _missing in ("TLS_ECDHE_RSA_WITH_AES_128_CCM", "TLS_ECDHE_RSA_WITH_AES_256_CCM"):
    del _TLS12[_missing]
_OF_OPENSSL: Final = frozenset(_TLS12.values())


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """Chosen suites, by OpenSSL's names: those up to TLS 1.2, and those of TLS 1.3."""

    tls12: tuple[str, ...]
    tls13: frozenset[str]

    @property
    def restricts_tls13(self) -> bool:
        """Some suites of TLS 1.3 are left out; Python's ssl always offers all of them."""
        return bool(self.tls13) and self.tls13 != _TLS13


def choose_suites(names: Iterable[str]) -> CipherSuites:
    """The suites of ``ssl_cipher_suites``, by Java's or OpenSSL's names.

    Raises :class:`ConfigError` for a name that is unknown, or that of a suite that is broken.
    """
    tls12: list[str] = []
    tls13: set[str] = set()
    for name in names:
        if name in _TLS13:
            tls13.add(name)
        elif name in _OF_OPENSSL:
            tls12.append(name)
        elif name in _TLS12:
            tls12.append(_TLS12[name])
        elif name not in _NO_SUITES:
            near = get_close_matches(name, [*_TLS13, *_TLS12], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"ssl_cipher_suites names {name!r}, which is unknown here, or too weak{hint}"
            )
    if not tls12 and not tls13:
        raise ConfigError("ssl_cipher_suites names no cipher suite")
    return CipherSuites(tuple(dict.fromkeys(tls12)), frozenset(tls13))


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """The values of Kafka's options without their ``ssl.``, and ``context``, the user's own.

    The type ``JKS``, Kafka's default, means: see what the file is, PEM or PKCS#12. (A JKS file is
    refused, with the command that converts it.) PEM texts need the type ``PEM``, as in Java, and
    may be on one line, as Kafka writes them.

    Raises:
        ConfigError: options contradict each other, or have no meaning here.
    """

    context: ssl.SSLContext | None = None
    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: Secret | None = None
    keystore_key: Secret | None = None
    """A private key, PEM."""
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    """The client's own certificate and those between it and the root, PEM."""
    key_password: Secret | None = None
    """The private key's password; PKCS#12: the same as ``keystore_password``."""
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: Secret | None = None
    truststore_certificates: str | None = field(default=None, repr=False)
    """The certificates to trust, PEM. Without these and a location: those of the system."""
    endpoint_identification_algorithm: str = "https"
    """``https``: the broker's certificate must name its host. Empty: any host."""
    protocol: str = "TLSv1.3"
    """The highest version."""
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    """Java's or IANA's names, or OpenSSL's. Empty: the good ones."""
    crl_location: str | None = None
    """A file with revocation lists (PEM). Without it nothing is looked up."""

    @classmethod
    def of(cls, options: Options) -> TlsOptions:
        """Those of a configuration. Raises ConfigError if they contradict each other."""
        given = {each.name: getattr(options, f"ssl_{each.name}") for each in fields(cls)}
        for name in _CERTIFICATES:
            if given[name] is not None:
                given[name] = given[name].reveal()
        if options.ssl_context is not None:  # their defaults are refused beside it as well
            _refuse_beside_context(
                [
                    name
                    for name, value in given.items()
                    if name != "context" and value is not None and f"ssl_{name}" in options.given
                ]
            )
        return cls(**given)

    @classmethod
    def of_properties(cls, given: Iterable[tuple[str, Secret]], where: str) -> TlsOptions:
        """Those with Java's names, ``ssl.keystore.location``; ``where`` they stand is for errors.

        Raises:
            ConfigError: an option is unknown, or can't be used.
        """
        known = {each.name for each in fields(cls)} - {"context"}
        arguments: dict[str, Any] = {}
        for name, value in given:
            keyword = name.removeprefix("ssl.").replace(".", "_")
            if keyword not in known:
                raise ConfigError(f"{where}: the option {name} is not supported: remove it")
            arguments[keyword] = value if keyword in _SECRETS else value.reveal()
            if keyword in _LISTS:
                names = map(str.strip, value.reveal().split(","))
                arguments[keyword] = tuple(dict.fromkeys(filter(None, names)))
        try:
            return cls(**arguments)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None

    def __post_init__(self) -> None:
        if self.context is not None:
            self._check_own_context(self.context)
            return
        for name in ("keystore_type", "truststore_type"):
            if (given := getattr(self, name)) not in _STORE_TYPES:
                raise ConfigError(
                    f"ssl_{name}={given!r} is not supported; use one of {', '.join(_STORE_TYPES)}"
                )
        self._check_keystore()
        self._check_truststore()
        if self.endpoint_identification_algorithm.lower() not in ("https", ""):
            raise ConfigError(
                f"ssl_endpoint_identification_algorithm={self.endpoint_identification_algorithm!r} "
                "is unknown; use 'https', or '' to accept a certificate for any host"
            )
        _ = self.versions, self.suites

    def _check_own_context(self, context: ssl.SSLContext) -> None:
        others = [
            each.name
            for each in fields(self)
            if each.name != "context" and getattr(self, each.name) != each.default
        ]
        _refuse_beside_context(others)
        if context.protocol == ssl.PROTOCOL_TLS_SERVER:
            raise ConfigError(
                "ssl_context is a context for servers: create one for clients with "
                "ssl.create_default_context(), whose default purpose is SERVER_AUTH"
            )

    def _check_keystore(self) -> None:
        location, key, chain = (
            self.keystore_location,
            self.keystore_key,
            self.keystore_certificate_chain,
        )
        if (key is None) != (chain is None):
            given, missing = "ssl_keystore_key", "ssl_keystore_certificate_chain"
            if key is None:
                given, missing = missing, given
            raise ConfigError(f"{given} also needs {missing}")
        if key is not None and location is not None:
            raise ConfigError(
                "ssl_keystore_location and ssl_keystore_key: give the file or the text"
            )
        if key is not None and self.keystore_type != "PEM":
            raise ConfigError("ssl_keystore_key is PEM text: set ssl_keystore_type='PEM'")
        if self.keystore_password is not None and key is not None:
            raise ConfigError(
                "ssl_keystore_password does not apply to ssl_keystore_key: the "
                "password of an encrypted key is ssl_key_password"
            )
        secrets = ("keystore_password", "key_password")
        for name in secrets if location is None and key is None else ():
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"ssl_{name} is set, but there is no key: ssl_keystore_location, or "
                    "ssl_keystore_key with ssl_keystore_certificate_chain"
                )

    def _check_truststore(self) -> None:
        texts = self.truststore_certificates is not None
        if texts and self.truststore_location is not None:
            raise ConfigError(
                "ssl_truststore_location and ssl_truststore_certificates: give the file or the text"
            )
        if texts and self.truststore_type != "PEM":
            raise ConfigError(
                "ssl_truststore_certificates is PEM text: set ssl_truststore_type='PEM'"
            )
        if self.truststore_password is not None and self.truststore_location is None:
            raise ConfigError("ssl_truststore_password is set, but no ssl_truststore_location")

    @property
    def verifies_host(self) -> bool:
        """The broker's certificate must name its host."""
        if self.context is not None:
            return self.context.check_hostname
        return bool(self.endpoint_identification_algorithm)

    @property
    def has_identity(self) -> bool:
        """A client certificate is configured; unknown, and False, with a context of the user's."""
        return self.keystore_location is not None or self.keystore_key is not None

    @property
    def suites(self) -> CipherSuites | None:
        """The chosen cipher suites; None: all good ones."""
        return choose_suites(self.cipher_suites) if self.cipher_suites else None

    @property
    def versions(self) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        """The lowest and the highest version. As in Java, there is no TLS 1.3 unless a suite of it
        is among the chosen ones, and with ``protocol`` TLSv1.2 even if it is enabled."""
        names = list(self.enabled_protocols)
        for name in (*names, self.protocol):
            if name in _OLD_VERSIONS:
                raise ConfigError(
                    f"{name} is insecure and not supported: use TLSv1.2 and TLSv1.3 in "
                    "ssl_enabled_protocols, one of them in ssl_protocol"
                )
            if name not in _VERSIONS and not (name == "TLS" and name not in names):
                raise ConfigError(
                    f"{name!r} is not a TLS version; ssl_enabled_protocols and "
                    "ssl_protocol accept TLSv1.2 and TLSv1.3"
                )
        if self.protocol == "TLSv1.2":
            names = [name for name in names if name == "TLSv1.2"]
        if suites := self.suites:
            fitting = [("TLSv1.2", suites.tls12), ("TLSv1.3", suites.tls13)]
            names = [name for name, some in fitting if some and name in names]
        if not names:
            raise ConfigError(
                "no TLS version is left: ssl_enabled_protocols, ssl_protocol and "
                "ssl_cipher_suites (each suite belongs to TLS 1.2 or 1.3) contradict each other"
            )
        versions = sorted(_VERSIONS[name] for name in names)
        return versions[0], versions[-1]


_IN_MEMORY: Final = "/dev/shm"


@contextmanager
def private_file(content: Secret) -> Iterator[str]:
    """The path of a file with ``content``, which ends with the block.

    On Linux it is memory without a name, which no other user can open. Elsewhere it is a file that
    only this user may read, in a directory in memory where there is one.
    """
    named = ""
    descriptor = _anonymous_file()
    if descriptor < 0:
        directory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        descriptor, named = tempfile.mkstemp(prefix="aioproducer-", dir=directory)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content.reveal().encode("latin-1"))
        yield named or f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
        if named:
            os.unlink(named)  # Windows keeps a file that is open


def _anonymous_file() -> int:
    """A descriptor of memory that /proc gives a path to; -1 where there is no such thing."""
    if sys.platform != "linux":
        return -1
    try:
        descriptor = os.memfd_create("aioproducer")
    except OSError:  # an old kernel, or one that forbids it
        return -1
    if os.access(f"/proc/self/fd/{descriptor}", os.R_OK):
        return descriptor
    os.close(descriptor)
    return -1


logger = plain_logger(__name__)

_Signature: TypeAlias = tuple[tuple[int, ...] | None, ...]

_LONGEST_PASSWORD: Final = 1024
"""OpenSSL takes no longer one, in bytes."""


class CipherSuiteError(ssl.SSLError):
    """The broker chose a cipher suite of TLS 1.3 that ``ssl_cipher_suites`` leaves out."""


def _refuse_beside_context(others: list[str]) -> None:
    if others:
        raise ConfigError(
            "configure ssl_context itself, which excludes the options "
            f"{', '.join(f'ssl_{each}' for each in others)}"
        )


class TlsContexts:
    """Gives each new connection its context: the same one until the options or their files change.

    A file that can't be used, as it is half written perhaps, leaves the old context in use, says so
    once in the log, and is tried again for the next connection. Threads may share the object.
    """

    def __init__(
        self,
        options: TlsOptions,
        *,
        and_system: bool = False,
        reread: Callable[[], TlsOptions] | None = None,
    ) -> None:
        """``and_system``: the system's authorities are trusted beside those of the options.
        ``reread`` reads the options again, for they came by placeholders; None: they did not."""
        self.options = options
        self._reread = reread
        self._and_system = and_system
        self._lock = free_lock()
        """Guards what follows."""
        self._context: ssl.SSLContext | None = None
        self._made_of: _Signature = ()
        self._complaint = ""
        if options.context is not None and options.context.verify_mode is ssl.CERT_NONE:
            logger.warning(
                "ssl_context does not verify certificates (verify_mode is CERT_NONE): "
                "anyone on the network path can read and change all data, passwords "
                "included"
            )
        elif not options.verifies_host:
            own = options.context is not None
            logger.warning(
                "%s: the names in certificates are not verified, so anyone on the network path who "
                "has a certificate of a trusted authority can read and change all data, passwords "
                "included",
                "ssl_context has check_hostname=False"
                if own
                else "ssl_endpoint_identification_algorithm=''",
            )

    def get(self) -> ssl.SSLContext:
        """The context for a connection that is being made.

        This blocks: it asks for the state of up to three files, and sometimes reads them, which
        takes milliseconds, and with PKCS#12 up to a second (a key is derived from the password). So
        call it in a thread.

        Raises:
            ConfigError: there is no context yet, and a file can't be used.
            MissingExtraError: a file is in PKCS#12, and there is no ``cryptography``.
        """
        if self.options.context is not None:
            return self.options.context
        with self._lock:
            if self._context is None:
                self._context = self._make(self.options, self._signature(self.options))
            else:
                self._context = self._renewed(self._context)
            return self._context

    def _make(self, options: TlsOptions, seen: _Signature) -> ssl.SSLContext:
        """``seen``: from before the files are read, so that what changes then is read again."""
        context = make_context(options)
        if self._and_system:
            context.load_default_certs()
        self.options, self._made_of = options, seen
        return context

    def _renewed(self, context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            options = self.options if self._reread is None else self._reread()
            seen = self._signature(options)
            if (options, seen) != (self.options, self._made_of):
                context = self._make(options, seen)
                logger.info("New connections use the new content of the keystore or truststore")
            self._complaint = ""
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                logger.warning(
                    "The new certificates can't be loaded, so the old ones stay in use: %s", error
                )
        return context

    def _signature(self, options: TlsOptions) -> _Signature:
        paths = (options.keystore_location, options.truststore_location, options.crl_location)
        return tuple(_state_of(path) for path in paths if path is not None)


def _state_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)


def server_name(host: str, *, verified: bool = True) -> str:
    """The name of a broker's host as its certificate has it; for ``server_hostname`` of asyncio.

    A dot at the end says that a name is complete, and ``%eth0`` through which interface an IPv6
    address is reached; neither is part of a certificate, or of SNI (RFC 6066).

    Raises SslAuthenticationError if the name is to be ``verified`` and nothing is left of it: for
    asyncio, an empty name is no name, so any certificate would do.
    """
    bare = host.rstrip(".").partition("%")[0]
    if verified and not has_name(bare):
        raise SslAuthenticationError(
            f"the host {host!r} has no name that a certificate could prove: a broker, or someone "
            "on the network path, reports an address that no broker has. Check advertised.listeners"
        )
    try:
        return str(ip_address(bare.strip("[]")))
    except ValueError:
        return bare


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """A new context; it blocks, see :meth:`TlsContexts.get`. Raises as that does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.verifies_host
    context.hostname_checks_common_name = False  # RFC 9525: a name is in subjectAltName
    context.verify_flags |= STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version, context.maximum_version = options.versions
    if suites := options.suites:
        _choose(context, suites)
    _trust(context, options)
    if options.has_identity:
        _identify(context, options)
    if options.crl_location is not None:
        _check_revocation(context, options.crl_location)
    return context


def _choose(context: ssl.SSLContext, suites: CipherSuites) -> None:
    if suites.tls12:
        try:
            context.set_ciphers(":".join(suites.tls12))
        except ssl.SSLError:
            offered = set()
        else:
            offered = {each["name"] for each in context.get_ciphers()}
        if missing := [name for name in suites.tls12 if name not in offered]:
            raise ConfigError(
                f"ssl_cipher_suites names {', '.join(missing)}, which this Python's "
                f"{ssl.OPENSSL_VERSION} doesn't support, or refuses as too weak"
            )
    if suites.restricts_tls13:
        context.sslobject_class = _only(suites.tls13)


def _only(suites: frozenset[str]) -> type[ssl.SSLObject]:
    """A TLS connection that ends its handshake with an error unless one of ``suites`` is in use.

    Python's ssl has no way to offer fewer suites of TLS 1.3.
    """

    class OnlyChosenSuites(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            name, version, _ = self.cipher() or ("none", "", 0)
            if version == "TLSv1.3" and name not in suites:
                raise CipherSuiteError(1, f"the broker chose {name}")

    return OnlyChosenSuites


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.truststore_certificates is not None:
        name = "ssl_truststore_certificates"
        found = trusted_of_pem(name, Secret(options.truststore_certificates))
    elif options.truststore_location is not None:
        store = Store(
            "ssl_truststore",
            options.truststore_type,
            options.truststore_location,
            options.truststore_password,
        )
        name = store.name
        found = read_trusted(store, _read(store.name, store.location))
    else:
        context.load_default_certs()
        return
    certificates = _usable(found)
    # As in Java, whatever is in a trust store is trusted, not only roots.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{name} contains a damaged certificate ({error.reason or error})"
        ) from None


def _identify(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.keystore_location is not None:
        store = Store(
            "ssl_keystore",
            options.keystore_type,
            options.keystore_location,
            options.keystore_password,
        )
        name = store.name
        content = _read(store.name, store.location)
        found = read_identity(store, content, options.key_password)
    else:
        name = "ssl_keystore_key with ssl_keystore_certificate_chain"
        chain = Secret(options.keystore_certificate_chain or "")
        key = options.keystore_key or Secret("")
        found = identity_of_pem(name, key, chain, options.key_password)
    if complaint := _load_identity(context, _usable(found)):
        raise ConfigError(f"{name}: {complaint}")


def _load_identity(context: ssl.SSLContext, identity: Identity) -> str:
    """Why the key and its certificates can't be used. The error itself is let go: its traceback
    would hold the password."""
    asked = False

    def password() -> bytes:
        # Without it OpenSSL would ask at the terminal, and wait.
        nonlocal asked
        asked = True
        given = identity.key_password
        return b"" if given is None else given.reveal().encode()[:_LONGEST_PASSWORD]

    content = Secret(identity.key.reveal() + identity.chain)
    try:
        with private_file(content) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return (
                "the private key does not belong to the first certificate; the client's own "
                "certificate must come first"
            )
        if asked and identity.key_password is None:
            return "the private key is encrypted: set ssl_key_password"
        if asked:
            return "ssl_key_password is wrong, or the private key is damaged"
        return f"the private key or a certificate is damaged or refused ({error.reason or error})"
    except OSError as error:
        return f"the temporary file for the private key can't be created ({error})"
    return ""


def _check_revocation(context: ssl.SSLContext, location: str) -> None:
    name = f"ssl_crl_location={location!r}"
    lists = pem_blocks(_read(name, location)).revocation_lists
    if not lists:
        raise ConfigError(f"{name} contains no revocation list: -----BEGIN X509 CRL-----")
    try:
        # Only the lists of the file: certificates beside them would be trusted.
        with private_file(Secret("".join(lists))) as path:
            context.load_verify_locations(cafile=path)
    except OSError as error:
        raise ConfigError(f"{name} contains a damaged revocation list ({error})") from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _read(name: str, path: str) -> Secret:
    """The bytes of a file, as Latin-1."""
    try:
        with open(path, "rb") as file:
            return Secret(file.read().decode("latin-1"))
    except OSError as error:
        raise ConfigError(f"{name} can't be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{name} can't be read: {error}") from None


def _usable(found: Any) -> Any:
    if isinstance(found, Complaint):
        raise ConfigError(found.text)
    return found
