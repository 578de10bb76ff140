"""AWS_MSK_IAM: a login with a signed request, as Amazon MSK expects it; and such tokens.

:func:`aws_login` reads the options. botocore finds the credentials by its own chain and signs with
them; both block. Source: aws-msk-iam-auth (version 2020_10_22 of its message), and
aws-msk-iam-sasl-signer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import platform
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, ClassVar, Final, final
from urllib.parse import parse_qsl, quote, urlsplit

from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.mechanism import Login, Mechanism, Options
from aioproducer.auth.oauthbearer import Token, json_object
from aioproducer.errors import (
    AuthenticationError,
    ConfigError,
    MissingExtraError,
    ProducerError,
    TokenEndpointError,
)
from aioproducer.foundation.runtime.threads import MOST_HANGING, ThreadForEach, free_lock
from aioproducer.foundation.secret import Secret, printable
from aioproducer.foundation.version import __version__

__all__ = ["AwsMskIam", "AwsMskIamExchange", "msk_token_provider"]

THREAD_NAME: Final = "aioproducer-aws"
EXPIRES: Final = 900
"""Seconds for which a signature is good; brokers take no more."""
_SERVICE: Final = "kafka-cluster"
_ACTION: Final = "kafka-cluster:Connect"
_ROLE_SESSION: Final = "aws-msk-iam-auth"
_TIMEOUT: Final = 10
_REGION: Final = re.compile(
    r"(?:af|ap|ca|cn|eu|eusc-de|il|me|mx|sa|us)(?:-gov|-iso[a-z]*)?"
    r"-(?:central|north|south|(?:north|south)?(?:east|west))-\d{1,2}"
)
_PASSING_CODES: Final = (
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "IDPCommunicationError",  # STS did not reach the provider of a web identity
)
_SERVER_ERRORS: Final = 500
_LOGS_WITH_SECRETS: Final = ("botocore.auth", "botocore.endpoint", "botocore.parsers")
"""At DEBUG they print session tokens, signatures, and the credentials that STS answers."""
_LOGS_WITH_TRACEBACKS: Final = ("botocore.credentials",)
"""A traceback prints an answer of STS that can't be parsed."""
_VERSION: Final = "2020_10_22"
_MOST_OF_AN_ANSWER: Final = 64 * 1024
_MOST_PROVIDERS: Final = 64
USER_AGENT: Final = f"aioproducer/{__version__}/python/{platform.python_version()}"


@dataclass(frozen=True)
class AwsOptions:
    """The options of aws-msk-iam-auth's JAAS line. None given: botocore's default chain.

    With a profile or a role, its credentials are used and no others. A role is assumed with its own
    access key where one is given, else with the credentials of the profile or the default chain.
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = _ROLE_SESSION
    role_external_id: str | None = None
    sts_region: str | None = None
    role_access_key_id: Secret | None = None
    role_secret_access_key: Secret | None = None
    role_session_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class AwsLogin(Login):
    """``AWS_MSK_IAM``; by default with AWS's own chain of credentials."""

    region: str | None = None
    options: AwsOptions = AwsOptions()

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """See :attr:`aioproducer.auth.mechanism.Login.loads`."""
        return (load_botocore,)

    def make(self, options: Options, clock: Callable[[], float]) -> AwsMskIam:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""
        return AwsMskIam(self.region, self.options)


def aws_login(sources: LoginSources) -> AwsLogin:
    """The login by the options.

    Raises:
        ConfigError: an option lacks the one that it belongs to.
    """
    role_arn = sources.text("sasl_aws_role_arn", "awsRoleArn")
    session_name = sources.text("sasl_aws_role_session_name", "awsRoleSessionName")
    external_id = sources.text("sasl_aws_role_external_id", "awsRoleExternalId")
    key_id = sources.text(None, "awsRoleAccessKeyId")
    secret_key = sources.secret(None, "awsRoleSecretAccessKey")
    if (key_id is None) != (secret_key is None):
        raise ConfigError(
            "sasl_jaas_config: awsRoleAccessKeyId and awsRoleSecretAccessKey belong together"
        )
    of_role = {
        "role_session_name": session_name,
        "role_external_id": external_id,
        "role_access_key_id": key_id,
    }
    for name, value in of_role.items() if role_arn is None else ():
        if value is not None:
            raise ConfigError(
                f"{name} of an AWS login is for a role: set sasl_aws_role_arn (awsRoleArn in"
                " sasl_jaas_config)"
            )
    return AwsLogin(
        sources.text("sasl_aws_region", None),
        AwsOptions(
            sources.text("sasl_aws_profile_name", "awsProfileName"),
            role_arn,
            session_name or _ROLE_SESSION,
            external_id,
            sources.text("sasl_aws_sts_region", "awsStsRegion"),
            None if key_id is None else Secret(key_id),
            secret_key,
            sources.secret(None, "awsRoleSessionToken"),
        ),
    )


class AwsMskIam(Mechanism):
    """The mechanism ``AWS_MSK_IAM``. botocore finds and renews the credentials, in threads."""

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
    """One login: the signed message, and the broker's response to it."""

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
                f"AWS_MSK_IAM: the broker's response has version {printable(version)}, not"
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


def load_botocore() -> None:
    """Import the modules of botocore that credentials need."""
    with suppress(ImportError):  # a login says what is missing
        import botocore.auth
        import botocore.awsrequest
        import botocore.config
        import botocore.credentials
        import botocore.exceptions
        import botocore.parsers
        import botocore.session  # noqa: F401


def region_of(host: str) -> str | None:
    """The region in a broker's name: ``b-1.x.c2.kafka.eu-west-1.amazonaws.com``."""
    labels = reversed(host.lower().split("."))
    return next((label for label in labels if _REGION.fullmatch(label)), None)


class AwsSigner:
    """Signs for one producer; every method blocks, and may be called from any thread."""

    def __init__(self, options: AwsOptions | None = None, region: str | None = None) -> None:
        self._options = options or AwsOptions()
        self._region = region
        self._lock = free_lock()
        """Guards what follows, for a session of botocore belongs to one thread at a time."""
        self._session: Any = None
        self._credentials: Any = None

    def signed(self, host: str) -> Secret | ProducerError:
        """The signed URL for ``https://host/``, or why there is none.

        The region is that of the options, of the host's name, or of AWS's own configuration. No
        credential is in a local of the error's traceback: it is returned, not raised.
        """
        try:
            with self._lock:
                region = self._region or region_of(host) or self._own_region()
                frozen = self._frozen(region)
            if frozen is None:
                return AuthenticationError(
                    "no AWS credentials: botocore's chain (environment, profile, container,"
                    " instance) found none; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
                    " awsProfileName in sasl_jaas_config"
                )
            if region is None:
                return AuthenticationError(
                    f"no AWS region: the host name {printable(host)} does not contain one; set "
                    "AWS_REGION"
                )
            return sign(host, region, frozen)
        except Exception as error:
            return aws_failure(error)

    def _frozen(self, region: str | None) -> Any:
        if self._credentials is None:
            session = self._get_session()
            if region is not None and self._own_region() is None:
                # for STS, which web identities ask: its global address may be out of reach
                session.set_config_variable("region", region)
            self._credentials = self._of_role(session) or session.get_credentials()
        found = self._credentials
        return None if found is None else found.get_frozen_credentials()

    def _get_session(self) -> Any:
        if self._session is None:
            self._session = new_session("AWS_MSK_IAM", self._options.profile)
        return self._session

    def _of_role(self, session: Any) -> Any:
        options = self._options
        if options.role_arn is None:
            return None
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            Credentials,
            DeferredRefreshableCredentials,
        )

        if options.role_access_key_id and options.role_secret_access_key:
            token = options.role_session_token
            source = Credentials(
                options.role_access_key_id.reveal(),
                options.role_secret_access_key.reveal(),
                token.reveal() if token is not None else None,
            )
        else:
            source = session.get_credentials()
        if source is None:
            return None
        extra = {"RoleSessionName": options.role_session_name}
        if options.role_external_id is not None:
            extra["ExternalId"] = options.role_external_id
        region = options.sts_region or self._region or self._own_region()
        fetcher = AssumeRoleCredentialFetcher(
            partial(session.create_client, region_name=region or "aws-global"),
            source,
            options.role_arn,
            extra_args=extra,
            mfa_prompter=_no_prompt,
            cache={},
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _own_region(self) -> str | None:
        found = self._get_session().get_config_variable("region") or os.environ.get("AWS_REGION")
        return str(found) if found else None


def new_session(what: str, profile: str | None = None) -> Any:
    """A session of botocore, for ``what``, which logs no secret in threads of ``THREAD_NAME``.

    Raises:
        MissingExtraError: botocore is not installed.
    """
    _silence()
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ImportError:
        raise MissingExtraError(f"{what} needs botocore: pip install 'aioproducer[aws]'") from None
    session = Session(profile=profile)
    session.set_default_client_config(
        Config(connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT, retries={"max_attempts": 1})
    )
    return session


def sign(host: str, region: str, frozen: Any) -> Secret:
    """The signed URL, by botocore's own signer."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    request = AWSRequest("GET", f"https://{host}/", params={"Action": _ACTION})
    SigV4QueryAuth(frozen, _SERVICE, region, expires=EXPIRES).add_auth(request)
    return Secret(request.url)


def parameters_of(url: Secret) -> dict[str, str]:
    """The parameters of a signed URL."""
    return dict(parse_qsl(urlsplit(url.reveal()).query, keep_blank_values=True))


def _no_prompt(prompt: str) -> str:
    raise AuthenticationError(
        "the AWS role requires an MFA code, which a producer can't ask for: use "
        "credentials without MFA"
    )


class _NotInOurThreads(logging.Filter):
    """Drops secrets from what botocore says on behalf of a producer; others' records pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not (record.threadName or "").startswith(THREAD_NAME):
            return True
        record.exc_info = record.exc_text = None
        return record.levelno > logging.DEBUG or record.name not in _LOGS_WITH_SECRETS


_NOT_IN_OURS: Final = _NotInOurThreads()


def _silence() -> None:
    for name in (*_LOGS_WITH_SECRETS, *_LOGS_WITH_TRACEBACKS):
        logging.getLogger(name).addFilter(_NOT_IN_OURS)  # once, however often it is added


def aws_failure(error: Exception, what: str = "AWS credentials are not available") -> ProducerError:
    """The error for askers, without the original one, whose frames hold credentials."""
    if isinstance(error, ProducerError):
        error.__context__ = None
        return error.with_traceback(None)
    told = f"{what}: {type(error).__name__}: {printable(_text_of(error))}"
    if _passes(error):
        return TokenEndpointError(f"{told}; the producer retries")
    return AuthenticationError(told)


def _text_of(error: Exception) -> str:
    from botocore.parsers import ResponseParserError

    if isinstance(error, ResponseParserError):  # it shows the answer, which may have credentials
        return "the response can't be read"
    return str(error)


def _passes(error: Exception) -> bool:
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    if isinstance(error, FileNotFoundError | PermissionError):  # AWS_WEB_IDENTITY_TOKEN_FILE
        return False
    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response.get("Error", {}).get("Code")
        return status >= _SERVER_ERRORS or code in _PASSING_CODES
    return isinstance(
        error,
        (
            exceptions.ConnectionError,
            exceptions.HTTPClientError,
            exceptions.CredentialRetrievalError,
            exceptions.MetadataRetrievalError,
            ResponseParserError,
            OSError,
        ),
    )
