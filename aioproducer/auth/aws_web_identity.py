"""Tokens of AWS STS (``GetWebIdentityToken``), for clusters that trust AWS as identity provider.

Source: ``aws_iam`` of librdkafka and confluent-kafka. Amazon MSK takes other tokens, those of
:mod:`aioproducer.auth.aws_msk_iam`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from aioproducer.auth.aws_msk_iam import THREAD_NAME, aws_failure, new_session
from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.oauthbearer import Token, token_from
from aioproducer.errors import ConfigError, MissingExtraError, ProducerError, TokenError
from aioproducer.foundation.runtime.threads import ThreadForEach, free_lock
from aioproducer.foundation.secret import Secret

__all__ = ["aws_web_identity_token_provider"]

_PARAMETERS: Final = "sasl_oauthbearer_config"
_ALGORITHMS: Final = ("ES384", "RS256")
_SECONDS: Final = range(60, 3601)
_MOST_TAGS: Final = 50
_MOST_CLIENTS: Final = 64


def aws_web_identity_token_provider(
    region: str,
    audience: str,
    *,
    duration_seconds: int = 300,
    signing_algorithm: str = "ES384",
    tags: Mapping[str, str] | None = None,
    sts_endpoint: str | None = None,
) -> Callable[[], Token]:
    """Return a token provider for OAUTHBEARER with the AWS identity of this machine or pod.

    AWS STS signs a JWT for ``audience``, which the brokers expect as the claim ``aud``; the account
    needs outbound identity federation. Credentials come from botocore's chain: environment, web
    identity (``AWS_WEB_IDENTITY_TOKEN_FILE``), profile, container, machine.

    ``region`` is that of STS. ``duration_seconds`` (60 to 3600) is how long a token is valid.
    ``signing_algorithm`` is ``ES384`` or ``RS256``. ``tags`` become claims. ``sts_endpoint`` is
    another address of STS. Defaults are confluent-kafka's.

    Providers with equal arguments share their token. A provider raises ``AuthenticationError`` if
    STS or the credential chain refuses, and ``TokenEndpointError`` if STS does not answer.

    Raises:
        ConfigError: an argument is out of its range.
    """
    pairs = tuple(sorted((tags or {}).items()))
    return AwsWebIdentity(
        region, audience, duration_seconds, signing_algorithm, pairs, sts_endpoint
    )


@dataclass(frozen=True)
class AwsWebIdentity:
    """The token provider that :func:`aws_web_identity_token_provider` returns."""

    region: str
    audience: str
    duration_seconds: int = 300
    signing_algorithm: str = "ES384"
    tags: tuple[tuple[str, str], ...] = ()
    sts_endpoint: str | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError for arguments that STS refuses."""
        problem = None
        if not self.region or not self.audience:
            problem = "region and audience must not be empty"
        elif self.duration_seconds not in _SECONDS:
            problem = f"duration_seconds={self.duration_seconds} must be from 60 to 3600"
        elif self.signing_algorithm not in _ALGORITHMS:
            problem = f"signing_algorithm={self.signing_algorithm!r} must be ES384 or RS256"
        elif len(self.tags) > _MOST_TAGS:
            problem = f"{len(self.tags)} tags are more than the {_MOST_TAGS} that AWS accepts"
        if problem is not None:
            raise ConfigError(f"tokens of AWS STS: {problem}")

    def __call__(self) -> Token:
        """Ask STS. Raises AuthenticationError, TokenError or TokenEndpointError."""
        outcome = ThreadForEach(THREAD_NAME).submit(self._fetch).result()
        if isinstance(outcome, ProducerError):
            raise outcome
        value, expires = outcome
        return token_from((value, expires))

    def _fetch(self) -> tuple[Secret, Any] | ProducerError:
        """The token and its end, or why there is none: no frame of an error holds a credential."""
        environment = sorted(each for each in os.environ.items() if each[0].startswith("AWS_"))
        request: dict[str, Any] = {
            "Audience": [self.audience],
            "DurationSeconds": self.duration_seconds,
            "SigningAlgorithm": self.signing_algorithm,
        }
        if self.tags:
            request["Tags"] = [{"Key": name, "Value": value} for name, value in self.tags]
        try:
            sts = _client(self.region, self.sts_endpoint, Secret(repr(environment)))
            answer = sts.ask(request)
        except LookupError:  # of botocore, in an answer of another form
            answer = {}
        except Exception as error:
            return aws_failure(error, "AWS STS returned no token")
        value = answer.get("WebIdentityToken")
        if not isinstance(value, str):
            return TokenError("AWS STS answered without a WebIdentityToken")
        return Secret(value), answer.get("Expiration")


def web_identity_of(sources: LoginSources, parameters: Mapping[str, str]) -> AwsWebIdentity:
    """The identity by the options. Raises ConfigError if a parameter is missing or wrong."""
    region = parameters.get("region") or sources.config.sasl_aws_region
    audience = parameters.get("audience")
    if region is None or audience is None:
        raise ConfigError(
            f"sasl_oauthbearer_metadata_authentication_type='aws_iam' needs {_PARAMETERS}="
            "'region=…,audience=…'; for Amazon MSK set sasl_mechanism='AWS_MSK_IAM' instead"
        )
    if parameters.get("aws_debug", "none").lower() != "none":
        raise ConfigError(f"{_PARAMETERS}: aws_debug would print credentials: remove it")
    seconds = parameters.get("duration_seconds", "300")
    if not re.fullmatch("[0-9]{1,9}", seconds):
        raise ConfigError(f"{_PARAMETERS}: duration_seconds={seconds!r} must be a number")
    tags = {
        name.removeprefix("tag_"): value
        for name, value in parameters.items()
        if name.startswith("tag_")
    }
    return AwsWebIdentity(
        region,
        audience,
        int(seconds),
        parameters.get("signing_algorithm", "ES384"),
        tuple(sorted(tags.items())),
        parameters.get("sts_endpoint"),
    )


class _Sts:
    """One client of STS, with the credentials that botocore keeps and renews."""

    def __init__(self, region: str, endpoint: str | None) -> None:
        self._region = region
        self._endpoint = endpoint
        self._lock = free_lock()
        """A session of botocore belongs to one thread at a time."""
        self._client: Any = None

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            if self._client is None:
                session = new_session("a token of AWS STS")
                session.set_config_variable("region", self._region)
                self._client = session.create_client(
                    "sts", region_name=self._region, endpoint_url=self._endpoint
                )
            client = self._client
        if not hasattr(client, "get_web_identity_token"):
            raise MissingExtraError(
                "tokens of AWS STS need botocore 1.42 or newer: pip install -U botocore"
            )
        return client.get_web_identity_token(**request)  # type: ignore[no-any-return]


@lru_cache(maxsize=_MOST_CLIENTS)
def _client(region: str, endpoint: str | None, environment: Secret) -> _Sts:
    """One for equal settings; with other ``AWS_…`` variables, another one."""
    return _Sts(region, endpoint)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_client.cache_clear)  # their locks may be held
