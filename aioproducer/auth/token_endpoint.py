"""A token endpoint (RFC 6749): the POST, and the grants by which it gives a token.

The grants are token providers: client credentials, with a secret or an assertion, and jwt-bearer
(RFC 7523, KIP-1139). An assertion is a JWT that the client signs with its own key or reads from a
file. They block: :class:`~aioproducer.auth.tokens.TokenSource` calls them in a thread. No secret
leaves a function as an exception's local: whatever holds one returns a value, and its caller
raises.

Source: Kafka's ``ClientCredentialsJwtRetriever``, ``JwtBearerJwtRetriever``, ``FileJwtRetriever``,
``AssertionSupplierFactory`` and ``DefaultAssertionCreator`` with its templates.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, quote_plus, urlencode
from uuid import uuid4

from aioproducer.auth.http_exchange import (
    FINAL_STATUSES,
    REDIRECTS,
    SUCCESS,
    Answer,
    HttpRequest,
    Limits,
    Trouble,
    own_clock,
    split_url,
    without_query,
)
from aioproducer.auth.oauthbearer import (
    Token,
    base64url,
    claims_of,
    json_object,
    reason_in,
    token_from,
    token_in,
)
from aioproducer.errors import ConfigError, MissingExtraError, TokenEndpointError, TokenError
from aioproducer.foundation.secret import Secret, printable
from aioproducer.model import is_loopback

__all__ = [
    "TokenEndpoint",
    "Assertion",
    "AssertionFile",
    "SignedAssertion",
    "load_cryptography",
    "read_secret_file",
    "ClientCredentials",
    "JwtBearer",
    "TokenFile",
]


_FORM: Final = Secret("application/x-www-form-urlencoded")


@dataclass(frozen=True)
class TokenEndpoint:
    """An HTTP address that gives tokens, and how long to wait for it.

    Unlike Kafka's client, aioproducer refuses an ``http://`` address unless it is this machine's
    own: secrets would cross the network in the clear. Redirects are not followed.
    :class:`HttpRequest` says which proxies of the environment are used.
    """

    url: str = field(repr=False)
    clock: Callable[[], float]
    """Seconds since the epoch."""
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    """Gives the context of each request; by default, with the authorities that the system trusts.
    It may read files."""
    connect_timeout: float = 10.0
    read_timeout: float = 10.0
    option: str = "sasl_oauthbearer_token_endpoint_url"
    """The option that the address is from, for messages."""

    def __post_init__(self) -> None:
        """Raises ConfigError for an address that can't be asked."""
        parts = _split(self.url, self.option)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ConfigError(
                f"{self.option}: {self.shown} is not encrypted: anyone on the network path could "
                "read the client's secret and the token. Use https"
            )

    @property
    def shown(self) -> str:
        """The address for messages: without a query, which may hold a secret."""
        return without_query(self.url) or "?"

    def fetch(
        self, form: Mapping[str, str | Secret], authorization: Secret | None, *secrets: Secret
    ) -> Token:
        """The token for a form; a peer's text that repeats one of ``secrets`` is masked.

        Raises:
            TokenError: the endpoint refuses, is not to be trusted, or gives no token. Final.
            TokenEndpointError: it can't be reached, or fails at present.
            ConfigError: a file of the TLS options can't be used.
        """
        limits = Limits(self.connect_timeout, self.read_timeout)
        answer = self._post(form, authorization).answer(limits, self.tls())
        if isinstance(answer, Trouble):
            kind = TokenError if answer.final else TokenEndpointError
            raise kind(f"the token endpoint {self.shown} {answer.reason}")
        if answer.status not in SUCCESS:
            raise self._refusal(answer, secrets)
        found = token_in(answer.body, self.clock)
        if isinstance(found, str):
            raise TokenError(f"the token endpoint {self.shown} {found}")
        return found

    def _post(self, form: Mapping[str, str | Secret], authorization: Secret | None) -> HttpRequest:
        headers = {"Content-Type": _FORM}
        if authorization is not None:
            headers["Authorization"] = authorization
        body = urlencode({name: _text(value) for name, value in form.items()})
        return HttpRequest(self.url, headers, Secret(body))

    def _refusal(
        self, answer: Answer, secrets: tuple[Secret, ...]
    ) -> TokenError | TokenEndpointError:
        told = f"the token endpoint {self.shown} answered with status {answer.status}"
        if answer.status in REDIRECTS:
            location = without_query(answer.headers.get("location", Secret("")).reveal())
            to = f" to {printable(location)}" if location else ""
            return TokenError(f"{told}, a redirect{to}: configure the final address")
        reason = reason_in(answer.body, *secrets)
        told = f"{told}: {reason}" if reason else told
        if answer.status in FINAL_STATUSES:
            return TokenError(f"{told}; check the client's credentials, the scope and the address")
        return TokenEndpointError(f"{told}; the producer retries")


def _split(url: str, name: str) -> SplitResult:
    parts = split_url(url)
    if parts is None:
        raise ConfigError(
            f"{name}: the value is not a URL (it is not shown because it may contain a secret)"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name}: the URL must begin with https:// or http://, and name a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"{name}: a user or password in the address is not used; set them as the client's id "
            "and secret"
        )
    return parts


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


_MOST_OF_A_FILE: Final = 1024 * 1024
_ALGORITHMS: Final = ("RS256", "ES256")
_BYTES_OF_P256: Final = 32
_CURVE: Final = "secp256r1"


def read_secret_file(path: Path, what: str) -> Secret:
    """The text of a file, without white space around it.

    Raises:
        TokenError: there is no such file, it can't be read, or contains no token.
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
    clock: Callable[[], float] = own_clock
    """Seconds since the epoch. A client sets this one to its own."""
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
        return Secret(f"{content}.{base64url(signature)}")

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
    return base64url(json.dumps(claims, separators=(",", ":")).encode())


def load_cryptography() -> None:
    """Import the modules that sign assertions."""
    with suppress(ImportError):  # an assertion says what is missing
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ec
        import cryptography.hazmat.primitives.asymmetric.padding
        import cryptography.hazmat.primitives.asymmetric.rsa
        import cryptography.hazmat.primitives.asymmetric.utils
        import cryptography.hazmat.primitives.hashes
        import cryptography.hazmat.primitives.serialization  # noqa: F401


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


_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_OF_A_CLIENT: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Assertion(Protocol):
    """A signed assertion, made or read again for each request."""

    def create(self) -> Secret: ...


@dataclass(frozen=True)
class ClientCredentials:
    """``grant_type=client_credentials`` with a secret (HTTP Basic), or with a client assertion.

    ``urlencode_header``: encode id and secret before Basic does, as RFC 6749, section 2.3.1 wants
    it (``sasl.oauthbearer.header.urlencode``).
    """

    endpoint: TokenEndpoint
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    urlencode_header: bool = False
    assertion: Assertion | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError where neither a secret nor an assertion is given."""
        if self.assertion is None and not (self.client_id and self.client_secret):
            raise ConfigError(
                "client credentials need sasl_oauthbearer_client_credentials_client_id and"
                " …_client_secret, or an assertion (sasl_oauthbearer_assertion_…)"
            )

    def __call__(self) -> Token:
        """Ask the endpoint. Raises TokenError or TokenEndpointError."""
        form: dict[str, str | Secret] = {"grant_type": "client_credentials", **_scope(self.scope)}
        if self.assertion is not None:
            assertion = self.assertion.create()
            form["client_assertion_type"] = _ASSERTION_OF_A_CLIENT
            form["client_assertion"] = assertion
            if self.client_id:
                form["client_id"] = self.client_id.strip()
            return self.endpoint.fetch(form, None, assertion)
        secret = self.client_secret or Secret("")
        authorization = _basic(self.client_id or "", secret, self.urlencode_header)
        bare = Secret(authorization.reveal().removeprefix("Basic "))
        return self.endpoint.fetch(form, authorization, secret, bare)


@dataclass(frozen=True)
class JwtBearer:
    """``grant_type=jwt-bearer`` (RFC 7523): the assertion stands for the one who asks."""

    endpoint: TokenEndpoint
    assertion: Assertion
    scope: str | None = None

    def __call__(self) -> Token:
        """Ask the endpoint. Raises TokenError or TokenEndpointError."""
        assertion = self.assertion.create()
        form = {"grant_type": _JWT_BEARER, "assertion": assertion, **_scope(self.scope)}
        return self.endpoint.fetch(form, None, assertion)


@dataclass(frozen=True)
class TokenFile:
    """A file that holds a token, and that others replace; it is read at each fetch."""

    path: Path

    def __call__(self) -> Token:
        """Read the file. Raises TokenError or TokenEndpointError."""
        token = _token_or_none(read_secret_file(self.path, "token"))
        if token is None:
            raise TokenError(f"the token file {self.path} contains no bearer token")
        return token


def _token_or_none(text: Secret) -> Token | None:
    try:
        return token_from(text)
    except TokenError:
        return None


def _scope(scope: str | None) -> Mapping[str, str | Secret]:
    return {"scope": scope.strip()} if scope and scope.strip() else {}


def _basic(client_id: str, secret: Secret, urlencode: bool) -> Secret:
    pair = [client_id.strip(), secret.reveal().strip()]
    if urlencode:
        pair = [quote_plus(text) for text in pair]
    return Secret(f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}")
