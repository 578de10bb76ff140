"""AWS_MSK_IAM: a login by a signed request, as Amazon MSK takes it; and the token of that kind.

Source: aws-msk-iam-auth (version 2020_10_22 of its message), and aws-msk-iam-sasl-signer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import platform
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import ClassVar, Final, final
from urllib.parse import quote

from aioproducer.auth.aws_credentials import (
    EXPIRES,
    THREAD_NAME,
    AwsOptions,
    AwsSigner,
    parameters_of,
)
from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.oauthbearer import Token
from aioproducer.auth.peer_text import json_object, printable
from aioproducer.config.secret import Secret
from aioproducer.errors import AuthenticationError, ProducerError
from aioproducer.foundation.runtime.threads import MOST_HANGING, ThreadForEach
from aioproducer.foundation.version import __version__

__all__ = ["AwsMskIam", "AwsMskIamExchange", "msk_token_provider"]

_VERSION: Final = "2020_10_22"
_MOST_OF_AN_ANSWER: Final = 64 * 1024
_MOST_PROVIDERS: Final = 64
USER_AGENT: Final = f"aioproducer/{__version__}/python/{platform.python_version()}"


class AwsMskIam(Mechanism):
    """The mechanism. botocore finds and renews the credentials, in threads beside the loop."""

    name = "AWS_MSK_IAM"

    def __init__(self, region: str | None = None, options: AwsOptions | None = None) -> None:
        """``region``: None takes it from the broker's name, then from AWS's configuration."""
        self._signer = AwsSigner(options, region)
        self._threads = ThreadForEach(THREAD_NAME, most=MOST_HANGING)

    async def begin(self, host: str) -> AwsMskIamExchange:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.begin`."""
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._threads, self._signer.signed, host)
        if isinstance(outcome, ProducerError):
            raise outcome
        return AwsMskIamExchange(_message(host, outcome))


@final
class AwsMskIamExchange:
    """One login: the signed message, and the broker's answer to it."""

    blocking: ClassVar[bool] = False
    sent_secrets: ClassVar[tuple[Secret, ...]] = ()
    refusal: ClassVar[None] = None

    def __init__(self, message: Secret) -> None:
        self.complete = False
        self.request_id: str | None = None
        """The id by which AWS finds this login in its logs."""
        self._message = message
        self._respond = self._first

    def step(self, challenge: bytes) -> bytes:
        """See :meth:`aioproducer.auth.mechanism.Exchange.step`."""
        respond, self._respond = self._respond, self._too_many
        return respond(challenge)

    def _first(self, challenge: bytes) -> bytes:
        if challenge:
            raise AuthenticationError(
                "AWS_MSK_IAM: the broker sent a challenge before the client's message"
            )
        self._respond = self._verdict
        return self._message.reveal().encode()

    def _verdict(self, challenge: bytes) -> bytes:
        if not challenge:
            raise AuthenticationError(
                "AWS_MSK_IAM: the broker did not confirm the login; does it support this mechanism?"
            )
        answer = json_object(challenge[:_MOST_OF_AN_ANSWER]) or {}
        version, request_id = answer.get("version"), answer.get("request-id")
        if version != _VERSION or not isinstance(request_id, str):
            raise AuthenticationError(
                f"AWS_MSK_IAM: the broker's answer has version {printable(version)}, not"
                f" {_VERSION}, or no request-id"
            )
        self.request_id = printable(request_id)
        self.complete = True
        return b""

    def _too_many(self, challenge: bytes) -> bytes:
        raise AuthenticationError("AWS_MSK_IAM: the broker sent a challenge after the login's end")


def msk_token_provider(region: str, options: AwsOptions | None = None) -> Callable[[], Token]:
    """Return a token provider for OAUTHBEARER with Amazon MSK. Tokens are valid for 15 minutes.

    The same arguments return the same provider, so several producers share its token. With other
    ``AWS_…`` environment variables you get another provider.
    """
    named = sorted((name, text) for name, text in os.environ.items() if name.startswith("AWS_"))
    return _provider_of(region, options, Secret(repr(named)))


@lru_cache(maxsize=_MOST_PROVIDERS)
def _provider_of(
    region: str, options: AwsOptions | None, environment: Secret
) -> Callable[[], Token]:
    signer = AwsSigner(options, region)
    host = f"kafka.{region}.amazonaws.com"
    threads = ThreadForEach(THREAD_NAME)

    def provide() -> Token:
        outcome = threads.submit(signer.signed, host).result()
        if isinstance(outcome, ProducerError):
            raise outcome
        return _token_of(outcome)

    return provide


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_provider_of.cache_clear)  # their locks may be held


def _token_of(signed: Secret) -> Token:
    parameters = parameters_of(signed)
    url = f"{signed.reveal()}&User-Agent={quote(USER_AGENT, safe='')}"
    signed_at = datetime.strptime(f"{parameters['X-Amz-Date']}+0000", "%Y%m%dT%H%M%SZ%z")
    value = base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()
    return Token(Secret(value), signed_at.timestamp() + EXPIRES)


def _message(host: str, signed: Secret) -> Secret:
    parameters = {name.lower(): value for name, value in parameters_of(signed).items()}
    fields = {"version": _VERSION, "host": host, "user-agent": USER_AGENT, **parameters}
    return Secret(json.dumps(fields, separators=(",", ":")))
