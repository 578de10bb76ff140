"""Assertions: JWTs that a client signs with its own key, or reads from a file (KIP-1139).

Source: Kafka's ``AssertionSupplierFactory``, ``DefaultAssertionCreator`` and its templates.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from aioproducer.auth.peer_text import json_object
from aioproducer.auth.token import claims_of
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, MissingExtraError, TokenEndpointError, TokenError

__all__ = ["AssertionFile", "SignedAssertion", "read_secret_file"]

_MOST_OF_A_FILE: Final = 1024 * 1024
_ALGORITHMS: Final = ("RS256", "ES256")
_BYTES_OF_P256: Final = 32
_CURVE: Final = "secp256r1"


def read_secret_file(path: Path, what: str) -> Secret:
    """The text of a file, without white space around it.

    Raises:
        TokenError: there is no such file, it can't be read, or it is no such text.
        TokenEndpointError: reading it failed at present.
    """
    try:
        with path.open("rb") as file:
            content = Secret(file.read(_MOST_OF_A_FILE + 1).decode("utf-8").strip())
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise TokenError(f"the {what} file {path} can't be read: {error.strerror}") from None
    except OSError as error:
        raise TokenEndpointError(
            f"the {what} file {path} can't be read at the moment: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        content = Secret("")
    if not content.reveal() or len(content.reveal()) > _MOST_OF_A_FILE:
        raise TokenError(f"the {what} file {path} is empty, is not text, or is larger than 1 MiB")
    return content


@dataclass(frozen=True)
class AssertionFile:
    """``sasl.oauthbearer.assertion.file``: an assertion that others make, read for each request."""

    path: Path

    def create(self) -> Secret:
        """The assertion. Raises TokenError where the file contains no JWT."""
        assertion = read_secret_file(self.path, "assertion")
        if not claims_of(assertion):
            raise TokenError(f"the assertion file {self.path} contains no JWT")
        return assertion


@dataclass(frozen=True)
class SignedAssertion:
    """``sasl.oauthbearer.assertion.*``: an assertion made and signed for each request.

    A later layer replaces claims of an earlier one, as in Kafka: ``claims`` (aud, iss, sub), the
    template file (a JSON object with ``header`` and ``payload``), and alg, typ, iat, exp, nbf, jti.
    The files are read for each request, so keys may be replaced at any time.
    """

    private_key_file: Path
    clock: Callable[[], float]
    """Seconds since the epoch."""
    algorithm: str = "RS256"
    passphrase: Secret | None = None
    claims: tuple[tuple[str, str], ...] = ()
    template_file: Path | None = None
    seconds: tuple[int, int] = (300, 60)
    """``claim.exp.seconds`` from now on, and ``claim.nbf.seconds`` before now."""
    include_jti: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigError for an algorithm that Kafka does not know either."""
        if self.algorithm.upper() not in _ALGORITHMS:
            raise ConfigError(
                f"sasl_oauthbearer_assertion_algorithm: {self.algorithm!r} is not "
                f"supported; use {' or '.join(_ALGORITHMS)}"
            )

    def create(self) -> Secret:
        """The assertion. Raises TokenError where key or template can't be used."""
        header, payload = self._template()
        now = int(self.clock())
        expires_in, valid_before = self.seconds
        header |= {"alg": self.algorithm.upper(), "typ": "JWT"}
        payload = dict(self.claims) | payload
        payload |= {"iat": now, "exp": now + expires_in, "nbf": now - valid_before}
        if self.include_jti:
            payload["jti"] = str(uuid4())
        content = f"{_encoded(header)}.{_encoded(payload)}"
        key = read_secret_file(self.private_key_file, "private key")
        signature = _sign(content.encode(), key, self.passphrase, self.algorithm.upper())
        if isinstance(signature, str):
            raise TokenError(f"the private key file {self.private_key_file} {signature}")
        return Secret(f"{content}.{_base64(signature)}")

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.template_file is None:
            return {}, {}
        template = (
            json_object(read_secret_file(self.template_file, "assertion template").reveal()) or {}
        )
        header, payload = template.get("header", {}), template.get("payload", {})
        if not template or not isinstance(header, dict) or not isinstance(payload, dict):
            raise TokenError(
                f"the assertion template file {self.template_file} is not a JSON "
                'object with the objects "header" and "payload"'
            )
        return header, payload


def _encoded(claims: Mapping[str, Any]) -> str:
    return _base64(json.dumps(claims, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _sign(content: bytes, pem: Secret, passphrase: Secret | None, algorithm: str) -> bytes | str:
    """The signature as JWS has it (RFC 7518), or why there is none."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise MissingExtraError(
            "signed assertions need cryptography: pip install 'aioproducer[oauth]'"
        ) from error
    password = passphrase.reveal().encode() if passphrase is not None else None
    try:
        key = load_pem_private_key(pem.reveal().encode(), password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        given = (
            "the passphrase is wrong" if passphrase else "it is encrypted and no passphrase is set"
        )
        return f"can't be read: it is not a private key in PEM, or {given}"
    if algorithm == "RS256":
        if not isinstance(key, rsa.RSAPrivateKey):
            return "does not contain an RSA key, which RS256 needs"
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != _CURVE:
        return "does not contain a key on the curve P-256, which ES256 needs"
    signed = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(_BYTES_OF_P256, "big") for number in signed)
