"""Certificates for tests of TLS: authorities, servers, clients, good ones and wrong ones.

::

    authority = Authority()
    server = authority.issue("broker", hosts=("localhost", "127.0.0.1"))
    client = authority.issue("client")
    with KafkaCluster(
        listeners={"TLS": "SSL"},
        config=kafka_broker_properties(server, trusts=authority, client_auth="required"),
    ) as cluster:
        ...

It needs the extra ``tls``. The keys are of the curve P-256, whose keys are made quickly.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from aioproducer.errors import MissingExtraError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
except ImportError as error:
    raise MissingExtraError(
        "certificates for tests are made by cryptography: pip install 'aioproducer[tls]'"
    ) from error

__all__ = ["Authority", "Certificate", "kafka_broker_properties"]

_DAY: Final = timedelta(days=1)
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_SIGNS: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_PURPOSES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


@dataclass(frozen=True)
class Certificate:
    """A certificate with its private key, and the authorities between it and the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    intermediates: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        """The certificate, then the intermediate authorities."""
        return "".join(_pem(each) for each in (self.certificate, *self.intermediates))

    def key_pem(self, password: str | None = None) -> str:
        """The key in PKCS#8, encrypted where there is a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            _encryption(password),
        ).decode()

    def pem(self, password: str | None = None) -> str:
        """Key and chain, as a key store of the type PEM has them."""
        return self.key_pem(password) + self.chain_pem

    def pkcs12(self, password: str | None = None) -> bytes:
        """A key store of the type PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            b"kafka", self.key, self.certificate, self.intermediates, _encryption(password)
        )

    def write(self, path: Path, password: str | None = None) -> Path:
        """Write :meth:`pem` to a file."""
        path.write_text(self.pem(password))
        return path

    def server_context(
        self, *, trusts: Authority | None = None, version: ssl.TLSVersion | None = None
    ) -> ssl.SSLContext:
        """An asyncio server's context; ``trusts``: clients need a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            context.load_cert_chain(self.write(Path(directory, "server.pem")))
        if trusts is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=trusts.pem)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


class Authority:
    """An authority; a root unless it is ``under`` another one."""

    def __init__(self, name: str = "Test CA", *, under: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = under or self
        self.intermediates: tuple[x509.Certificate, ...] = ()
        now = datetime.now(UTC)
        builder = issuer._builder(self.name, self.key, now - _DAY, now + 30 * _DAY)
        builder = issuer._with_identifiers(builder, self.key)
        for extension in (x509.BasicConstraints(ca=True, path_length=None), _SIGNS):
            builder = builder.add_extension(extension, critical=True)
        self.certificate = builder.sign(issuer.key, hashes.SHA256())
        if under is not None:
            self.intermediates = (self.certificate, *under.intermediates)

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begins: datetime,
        ends: datetime,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )

    def _with_identifiers(
        self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        """Name the certificate's key and the authority's, as RFC 5280 requires."""
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return builder.add_extension(own, critical=False).add_extension(above, critical=False)

    @property
    def pem(self) -> str:
        """The authority's own certificate: a trust store of the type PEM."""
        return _pem(self.certificate)

    def issue(
        self,
        name: str = "broker",
        *,
        hosts: Sequence[str] = _LOCAL,
        begins: timedelta = -_DAY,
        ends: timedelta = 7 * _DAY,
        purposes: Iterable[ObjectIdentifier] = _PURPOSES,
        key_identifiers: bool = True,
    ) -> Certificate:
        """A certificate for a server or a client. ``begins`` and ``ends`` count from now on.

        ``key_identifiers`` False: it names no keys, like many home-made certificates.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key, now + begins, now + ends).add_extension(
            x509.ExtendedKeyUsage(purposes), critical=False
        )
        if key_identifiers:
            builder = self._with_identifiers(builder, key)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Certificate(builder.sign(self.key, hashes.SHA256()), key, self.intermediates)

    def revoke(self, *revoked: Certificate, ends: timedelta = _DAY) -> str:
        """A revocation list (PEM)."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.name)
            .last_update(now - 2 * _DAY)
            .next_update(now + ends)
        )
        for each in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(each.certificate.serial_number)
                .revocation_date(now - _DAY)
                .build()
            )
        signed = builder.sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def kafka_broker_properties(
    server: Certificate,
    *,
    trusts: Authority | None = None,
    client_auth: str = "none",
    listener: str | None = None,
) -> dict[str, str]:
    """Properties of brokers with a TLS listener: ``server`` is their certificate (KIP-651).

    ``trusts``: the issuer of clients' certificates. ``client_auth``: ``none``, ``requested`` or
    ``required``. ``listener``: for the listener of that name only.
    """
    prefix = f"listener.name.{listener.lower()}." if listener else ""
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem(),
        "ssl.keystore.certificate.chain": server.chain_pem,
        "ssl.client.auth": client_auth,
    }
    if trusts is not None:
        properties["ssl.truststore.type"] = "PEM"
        properties["ssl.truststore.certificates"] = trusts.pem
    return {f"{prefix}{name}": value for name, value in properties.items()}


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
