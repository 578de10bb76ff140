"""The options of TLS, with Kafka's names and defaults (``org.apache.kafka.common.config.
SslConfigs``)."""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from aioproducer.config.kinds import Choice, Nullable, Text
from aioproducer.config.option import Group, Importance, option
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import Names, SecretText, SslContext

__all__ = ["StoreType", "TlsOptions"]

StoreType = Literal["JKS", "PKCS12", "PEM"]

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TlsOptions:
    """The options of connections with TLS; without effect for the other protocols."""

    ssl_context: Any = option(Nullable(SslContext()), None, Group.TLS, HIGH)
    """An `ssl.SSLContext` of your own, used as it is; no other option of TLS may then be set. It
    can't be pickled."""

    ssl_truststore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the authorities that brokers' certificates are checked against. None: those of
    the system."""

    ssl_truststore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_truststore_location`. With Kafka's default, `JKS`, the file's
    content says whether it is PEM or PKCS#12; a Java keystore itself can't be read here."""

    ssl_truststore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` truststore; PEM has none."""

    ssl_truststore_certificates: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The authorities themselves instead of a file, as PEM text; needs `ssl_truststore_type="PEM"`
    (KIP-651)."""

    ssl_keystore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the client's private key and certificate, for brokers that ask for one. In PEM
    both stand in the same file."""

    ssl_keystore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_keystore_location`. With Kafka's default, `JKS`, the file's
    content says whether it is PEM or PKCS#12; a Java keystore itself can't be read here."""

    ssl_keystore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` keystore; PEM has `ssl_key_password`."""

    ssl_keystore_key: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The client's private key itself instead of a file, as PEM text (PKCS#8); needs
    `ssl_keystore_type="PEM"` and `ssl_keystore_certificate_chain`."""

    ssl_keystore_certificate_chain: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The client's certificate and those between it and its authority, as PEM text, beside
    `ssl_keystore_key`."""

    ssl_key_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of the private key."""

    ssl_endpoint_identification_algorithm: str = option(
        Choice(Literal["https", ""]), "https", Group.TLS
    )
    """`https` checks that a broker's certificate is for the host name that was asked for. An empty
    text switches the check off: whoever has any certificate of a trusted authority can then stand
    in for a broker."""

    ssl_protocol: str = option(
        Choice(Literal["TLSv1.3", "TLSv1.2", "TLS"]), "TLSv1.3", Group.TLS, MEDIUM
    )
    """The highest version of TLS; `TLS` is the highest that there is."""

    ssl_enabled_protocols: tuple[str, ...] = option(
        Names(), ("TLSv1.2", "TLSv1.3"), Group.TLS, MEDIUM
    )
    """The versions of TLS that may be negotiated: `TLSv1.2` and `TLSv1.3`, or one of them."""

    ssl_cipher_suites: tuple[str, ...] = option(Names(), (), Group.TLS)
    """The cipher suites that may be negotiated, by their names in OpenSSL or in the standards.
    Empty: OpenSSL's own choice."""

    ssl_crl_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS)
    """A PEM file of revocation lists that brokers' certificates are checked against (librdkafka's
    name). None checks none."""
