"""The protocols of a login: its options as read, its mechanism, and one exchange with one broker.

Source: RFC 4422, and ``SaslClientAuthenticator`` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from aioproducer.foundation.secret import Secret

__all__ = ["Exchange", "Login", "Mechanism", "Options"]


@dataclass(frozen=True, init=False, repr=False, eq=False, match_args=False)
class Options(Protocol):
    """The options that logins read, of a configuration of ``config/``, above this package.

    A frozen dataclass is a protocol of attributes that are only read.
    """

    given: frozenset[str]
    bootstrap_servers: tuple[tuple[str, int], ...]
    ssl_context: Any
    sasl_jaas_config: Secret | None
    sasl_aws_region: str | None
    sasl_login_callback_handler_class: str | None
    sasl_oauthbearer_token_provider: Callable[[], Any] | str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_metadata_authentication_type: Literal[
        "none", "azure", "azure_imds", "aws_iam", "gcp"
    ]
    sasl_oauthbearer_config: str | None
    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...]
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class Login(Protocol):
    """The login that a configuration asks for, read and checked as far as no file, network or
    library is needed. It can be compared and pickled, and shows no secret."""

    __slots__ = ()

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """The imports of libraries that it may call."""
        return ()

    @property
    def asks_over_https(self) -> bool:
        """A token's source is asked over HTTPS with the authorities of ``ssl_truststore_…``."""
        return False

    def make(self, options: Options, clock: Callable[[], float]) -> Mechanism:
        """The mechanism with its credentials, for the ``options`` that this login was read from.

        ``clock`` gives seconds since the epoch (``time.time``).

        Raises:
            ConfigError: credentials can't be used.
            MissingExtraError: the mechanism needs an extra that is not installed.
        """


class Exchange(Protocol):
    """One login at one broker, as a sequence of responses to challenges. It does no I/O itself,
    unless :attr:`blocking` says so."""

    blocking: ClassVar[bool]
    """A step takes long (a key derivation, a question to a KDC): run it beside the event loop."""

    complete: bool
    """The client has nothing more to say, and the server has proved what it has to."""

    @property
    def sent_secrets(self) -> tuple[Secret, ...]:
        """The secrets that the broker gets, and might repeat in its messages."""

    @property
    def refusal(self) -> str | None:
        """The broker's reason against the login, from a challenge before its error code."""

    def step(self, challenge: bytes) -> bytes:
        """The response to ``challenge``; the first challenge is empty.

        Raises:
            AuthenticationError: the server can't be trusted, or has said that it refuses.
        """


class Mechanism(Protocol):
    """A SASL mechanism with the credentials of a producer; it serves all connections."""

    __slots__ = ()

    name: str
    """Its name at brokers: ``SCRAM-SHA-256``."""

    async def current(self) -> Mechanism:
        """The mechanism with the credentials as they are now: the same one until they change.

        Raises:
            AuthenticationError: there are no credentials, or they can't be used. Final.
            NetworkError: they can't be had at present.
        """
        return self

    async def begin(self, host: str) -> Exchange:
        """Start a login at the broker ``host``; gets a token where one is needed.

        Raises:
            AuthenticationError: there are no credentials, or they can't be used. Final.
            NetworkError: they can't be had at present (a token endpoint is down, say).
        """

    async def close(self) -> None:
        """End what the mechanism runs on this event loop, within a moment."""
        return  # by default nothing runs between logins
