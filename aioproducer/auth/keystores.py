"""Key stores and trust stores as Java users have them: PEM and PKCS#12; JKS is recognized.

PEM stands in files or in options (KIP-651). Options may hold it on one line, as Kafka's properties
do: line breaks are spaces there, or a backslash and an n.

No function raises anything while it holds a key: complaints are values, for the frames of a
traceback would keep the key.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from aioproducer.errors import MissingExtraError
from aioproducer.foundation.secret import Secret

__all__ = [
    "PemBlocks",
    "pem_blocks",
    "Complaint",
    "Identity",
    "StoreFormat",
    "Store",
    "read_identity",
    "read_trusted",
]


_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([\x00-\x7f]*?)-----END \1-----")
_LINE_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class PemBlocks:
    """The blocks of a PEM text by kind, each with the line breaks that OpenSSL insists on."""

    keys: tuple[Secret, ...]
    certificates: tuple[str, ...]
    revocation_lists: tuple[str, ...]


def pem_blocks(text: Secret) -> PemBlocks:
    """Find the blocks in ``text``; what is around them is a comment. Never raises.

    A block that does not end, as in a file that is being written, is none.
    """
    blocks = [(match[1], _in_lines(match[1], match[2])) for match in _BLOCK.finditer(_broken(text))]
    return PemBlocks(
        tuple(Secret(block) for label, block in blocks if label.endswith("PRIVATE KEY")),
        tuple(block for label, block in blocks if label.endswith("CERTIFICATE")),
        tuple(block for label, block in blocks if label == "X509 CRL"),
    )


def _broken(text: Secret) -> str:
    r"""``text`` with a line break for each ``\n`` of two characters; base64 has no backslash."""
    return text.reveal().replace("\\r", "").replace("\\n", "\n")


def _in_lines(label: str, body: str) -> str:
    if ":" in body:  # headers of an old format, such as Proc-Type: their lines have a meaning
        lines = [line.strip() for line in body.strip().split("\n")]
    else:
        joined = "".join(body.split())
        lines = [joined[at : at + _LINE_LENGTH] for at in range(0, len(joined), _LINE_LENGTH)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


_NEEDS_EXTRA: Final = (
    "a PKCS#12 keystore needs the package cryptography: pip install 'aioproducer[tls]' "
    "(or convert it to PEM: openssl pkcs12 -in STORE.p12 -out STORE.pem)"
)


class StoreFormat(Enum):
    """The format of a store, by the first bytes of its file."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"
    JCEKS = "JCEKS"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, content: bytes) -> StoreFormat:
        """Guess it, as Java does for the types JKS and PKCS12."""
        for magic, found in _MAGIC.items():
            if content.startswith(magic):
                return found
        return cls.PEM if b"-----BEGIN " in content else cls.UNKNOWN


_MAGIC: Final = {
    b"\xfe\xed\xfe\xed": StoreFormat.JKS,
    b"\xce\xce\xce\xce": StoreFormat.JCEKS,
    b"\x30": StoreFormat.PKCS12,  # an ASN.1 sequence
}


@dataclass(frozen=True, slots=True)
class Store:
    """The file of a store, and how its options are called: ``ssl_keystore_...``."""

    options: str
    type: str
    location: str
    password: Secret | None

    @property
    def name(self) -> str:
        """The store in messages."""
        return f"{self.options}_location={self.location!r}"


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key (PEM) with its certificates (PEM), the client's own first."""

    key: Secret
    chain: str
    key_password: Secret | None


@dataclass(frozen=True, slots=True)
class Complaint:
    """Says why a store can't be used."""

    text: str


def read_identity(
    store: Store, content: Secret, key_password: Secret | None
) -> Identity | Complaint:
    """The key and the certificates in the file of a key store.

    ``content``: the bytes of the file, as Latin-1. ``key_password`` None: the key of a PKCS#12
    store has the password of the store, as in Java.
    """
    found = _format(store, content)
    if isinstance(found, Complaint):
        return found
    if found is StoreFormat.PEM:
        return identity_of_pem(store.name, content, content, key_password)
    return _pkcs12_identity(store, content)


def identity_of_pem(
    name: str, key: Secret, chain: Secret, key_password: Secret | None
) -> Identity | Complaint:
    """The key in one text and the certificates in another one; ``name`` is theirs in messages."""
    keys, certificates = pem_blocks(key).keys, pem_blocks(chain).certificates
    if len(keys) != 1:
        return Complaint(
            f"{name} has {len(keys) or 'no'} private keys; exactly one is needed: "
            "-----BEGIN PRIVATE KEY----- to -----END PRIVATE KEY-----"
        )
    if not certificates:
        return Complaint(
            f"{name} contains no certificate: after the private key it must contain the client's "
            "own certificate, followed by those of the authorities between it and the root"
        )
    return Identity(keys[0], "".join(certificates), key_password)


def read_trusted(store: Store, content: Secret) -> str | Complaint:
    """The certificates (PEM) in the file of a trust store; ``content`` as in read_identity()."""
    found = _format(store, content)
    if isinstance(found, Complaint):
        return found
    if found is StoreFormat.PEM:
        return trusted_of_pem(store.name, content)
    loaded = _load_pkcs12(store, content)
    if isinstance(loaded, Complaint):
        return loaded
    certificates = _certificates(loaded)
    return certificates or Complaint(f"{store.name} contains no trusted certificate")


def trusted_of_pem(name: str, text: Secret) -> str | Complaint:
    """The certificates in ``text``; ``name`` is its name in messages."""
    certificates = "".join(pem_blocks(text).certificates)
    return certificates or Complaint(f"{name} contains no certificate: -----BEGIN CERTIFICATE-----")


def _format(store: Store, content: Secret) -> StoreFormat | Complaint:
    """PEM or PKCS12. The type JKS, Kafka's default, and PKCS12 mean: see what the file is."""
    found = StoreFormat.of(content.reveal().encode("latin-1"))
    if found in (StoreFormat.JKS, StoreFormat.JCEKS):
        return Complaint(_how_to_convert(store, found))
    if found is StoreFormat.UNKNOWN:
        return Complaint(f"{store.name} is neither PEM nor PKCS#12, by its first bytes")
    if (store.type == "PEM") != (found is StoreFormat.PEM) and store.type != "JKS":
        return Complaint(
            f"{store.name} is a file in {found.value}, but {store.options}_type={store.type!r}: "
            f"set {store.options}_type={found.value!r}"
        )
    if found is StoreFormat.PEM and store.password is not None:
        return Complaint(
            f"{store.name} is PEM, which has no password of its own: remove "
            f"{store.options}_password (the password of an encrypted private key is "
            "ssl_key_password)"
        )
    return found


def _how_to_convert(store: Store, found: StoreFormat) -> str:
    new = str(PurePath(store.location).with_suffix(".p12"))
    if new == store.location:
        new += ".p12"
    source = ("-srckeystore", store.location, "-srcstoretype", found.value)
    made = ("-destkeystore", new, "-deststoretype", "PKCS12")
    command = shlex.join(["keytool", "-importkeystore", *source, *made])
    return (
        f"{store.name} is a Java keystore ({found.value}), which only Java can read. Convert it "
        f"with `{command}`, and set {store.options}_location={new!r}"
    )


def _pkcs12_identity(store: Store, content: Secret) -> Identity | Complaint:
    loaded = _load_pkcs12(store, content)
    if isinstance(loaded, Complaint):
        return loaded
    if loaded.key is None or loaded.cert is None:
        return Complaint(f"{store.name} contains no private key with a certificate")
    return Identity(_key_of(loaded), _certificates(loaded), None)


def _load_pkcs12(store: Store, content: Secret) -> Any:
    """The content of the file, or a :class:`Complaint`. The password is tried as it is,
    and a missing one as none and as an empty one."""
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        pkcs12 = None  # type: ignore[assignment]
    if pkcs12 is None:
        raise MissingExtraError(f"{store.name}: {_NEEDS_EXTRA}")
    given = store.password
    passwords = (None, b"") if given is None else (given.reveal().encode(),)
    reason = ""
    for password in passwords:
        try:
            return pkcs12.load_pkcs12(content.reveal().encode("latin-1"), password)
        except Exception as error:  # cryptography's own, and those of OpenSSL below it
            reason = f"{type(error).__name__}: {error}"
    option = f"{store.options}_password"
    return Complaint(
        f"{store.name} can't be read as PKCS#12 ({reason}). "
        + (
            f"{option} is not set; does the file need a password?"
            if given is None
            else (
                f"Check that {option} is right for the file and for the key in it, "
                "and that the file is complete"
            )
        )
    )


def _certificates(loaded: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    own = [loaded.cert] if loaded.cert is not None else []
    found = [*own, *loaded.additional_certs]
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in found)


def _key_of(loaded: Any) -> Secret:
    from cryptography.hazmat.primitives import serialization

    return Secret(
        loaded.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
    )
