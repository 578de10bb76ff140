"""AWS credentials by botocore's own chain, and signatures by its own signer. Both block."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from aioproducer.auth.peer_text import printable
from aioproducer.config.secret import Secret
from aioproducer.errors import (
    AuthenticationError,
    MissingExtraError,
    ProducerError,
    TokenEndpointError,
)
from aioproducer.foundation.runtime.threads import free_lock

__all__ = [
    "EXPIRES",
    "THREAD_NAME",
    "AwsOptions",
    "AwsSigner",
    "failure_of",
    "new_session",
    "parameters_of",
    "region_of",
    "sign",
]

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
            return failure_of(error)

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


def failure_of(error: Exception, what: str = "AWS credentials are not available") -> ProducerError:
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
        return "the answer can't be read"
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
