"""The options of TLS, checked as far as no file is needed (Kafka's ``SslConfigs``, KIP-651)."""

from __future__ import annotations

import ssl
import sys
from dataclasses import dataclass, field, fields
from typing import Final

from aioproducer.auth.cipher_suites import CipherSuites, choose_suites
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = ["STRICT", "TlsOptions"]

STRICT: Final = ssl.VERIFY_X509_STRICT if sys.version_info >= (3, 13) else ssl.VerifyFlags(0)
"""The flag that Python's own contexts have from 3.13 on: certificates follow RFC 5280."""
_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_OLD_VERSIONS: Final = frozenset({"SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """The values of Kafka's options without their ``ssl.``, and ``context``, the user's own.

    The type ``JKS``, Kafka's default, means: see what the file is, PEM or PKCS#12. (A JKS file is
    refused, with the command that converts it.) PEM texts may be on one line, as Kafka writes them.

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
        if others:
            raise ConfigError(
                "configure ssl_context itself, which excludes the options "
                f"{', '.join(f'ssl_{each}' for each in others)}"
            )
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
            raise ConfigError("ssl_keystore_location and ssl_keystore_key exclude each other")
        if key is not None and self.keystore_type == "PKCS12":
            raise ConfigError("ssl_keystore_key is PEM, but ssl_keystore_type='PKCS12'")
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
                "ssl_truststore_location and ssl_truststore_certificates exclude each other"
            )
        if texts and self.truststore_type == "PKCS12":
            raise ConfigError("ssl_truststore_certificates are PEM: remove ssl_truststore_type")
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
