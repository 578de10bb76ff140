"""Tokens that a cloud gives its machines: ``sasl.oauthbearer.metadata.authentication.type``.

Names and parameters are librdkafka's, which has ``azure_imds``, and confluent-kafka's, which has
``aws_iam`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aioproducer.config.addresses import EVENT_HUBS
from aioproducer.config.jaas import LoginSources, plain_class_name
from aioproducer.config.login import (
    AwsWebIdentityToken,
    AzureImdsToken,
    AzureToken,
    GcpToken,
    TokenSettings,
)
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.options import OptionTable

__all__ = ["metadata_settings"]

_TYPE: Final = "sasl_oauthbearer_metadata_authentication_type"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_GCP_HANDLER: Final = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
_IMDS_URL: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_COMMA: Final = r"(?<!\\),"
_TAG: Final = "tag_"
_NAMES: Final[dict[str, str]] = {
    "azure": "resource|client_id",
    "azure_imds": "query",
    "aws_iam": ("region|audience|duration_seconds|signing_algorithm|sts_endpoint|aws_debug|tag_.+"),
    "gcp": "",
}
"""The keys of each type, as a pattern."""
_AWS_SECONDS: Final = "300"
_AWS_ALGORITHM: Final = "ES384"


def metadata_settings(sources: LoginSources) -> TokenSettings | None:
    """The source of tokens that needs no secret; None: none is asked for.

    Raises:
        ConfigError: a parameter is missing, unknown, or has no use.
    """
    config = sources.config
    kind = config.sasl_oauthbearer_metadata_authentication_type
    handler = config.sasl_login_callback_handler_class
    if kind == "none" and handler is not None and plain_class_name(handler) == _GCP_HANDLER:
        kind = "gcp"
    if kind == "none":
        if config.sasl_oauthbearer_config is not None:
            raise ConfigError(f"{_PARAMETERS} has no use without {_TYPE}: set that, or remove it")
        return None
    return _READERS[kind](config, _parameters(kind, config.sasl_oauthbearer_config or ""))


def _parameters(kind: str, text: str) -> dict[str, str]:
    """``key=value,key=value``; a comma in a value is written as ``\\,``."""
    found = {}
    for each in re.split(_COMMA, text) if text.strip() else ():
        name, sign, value = (part.strip() for part in each.partition("="))
        if not sign or not value:
            raise ConfigError(
                f"{_PARAMETERS} must have the form 'key=value,key=value', with '\\,' for a comma in"
                " a value (it is not shown because it may contain a secret)"
            )
        if not re.fullmatch(_NAMES[kind], name):
            known = _NAMES[kind].replace("|", ", ").replace(".+", "NAME")
            told = f"its keys are {known}" if known else "it has none: remove the option"
            raise ConfigError(
                f"{_PARAMETERS}: the key {name[:100]!r} is unknown for {_TYPE}={kind!r}; {told}"
            )
        found[name] = value.replace("\\,", ",")
    return found


def _azure(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    resource = parameters.get("resource") or _event_hubs(config)
    if resource is None:
        raise ConfigError(
            f"{_TYPE}='azure' needs {_PARAMETERS}='resource=…', the application ID URI of the"
            " cluster: no name in bootstrap_servers is one of Azure Event Hubs"
        )
    return AzureToken(resource, parameters.get("client_id"))


def _event_hubs(config: OptionTable) -> str | None:
    """The resource of the first host of Event Hubs, as in Microsoft's samples for Java."""
    named = (host.lower() for host, _ in config.bootstrap_servers)
    return next((f"https://{host}" for host in named if host.endswith(EVENT_HUBS)), None)


def _azure_imds(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    url = config.sasl_oauthbearer_token_endpoint_url
    query = parameters.get("query")
    if url is None and query is None:
        raise ConfigError(
            f"{_TYPE}='azure_imds' needs {_PARAMETERS}='query=api-version=2018-02-01&resource=…'"
            " (librdkafka's form), or the whole address as sasl_oauthbearer_token_endpoint_url;"
            f" {_TYPE}='azure' needs neither for Event Hubs"
        )
    url = url or _IMDS_URL
    if query is not None:
        url = f"{url}{'&' if '?' in url else '?'}{query}"
    return AzureImdsToken(url)


def _aws_iam(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    region = parameters.get("region") or config.sasl_aws_region
    audience = parameters.get("audience")
    if region is None or audience is None:
        raise ConfigError(
            f"{_TYPE}='aws_iam' needs {_PARAMETERS}='region=…,audience=…'; for Amazon MSK set"
            " sasl_mechanism='AWS_MSK_IAM' instead"
        )
    if parameters.get("aws_debug", "none").lower() != "none":
        raise ConfigError(f"{_PARAMETERS}: aws_debug would print credentials: remove it")
    seconds = parameters.get("duration_seconds", _AWS_SECONDS)
    if not re.fullmatch("[0-9]{1,9}", seconds):
        raise ConfigError(f"{_PARAMETERS}: duration_seconds={seconds!r} must be a number")
    return AwsWebIdentityToken(
        region,
        audience,
        int(seconds),
        parameters.get("signing_algorithm", _AWS_ALGORITHM),
        tuple(
            (name.removeprefix(_TAG), value)
            for name, value in sorted(parameters.items())
            if name.startswith(_TAG)
        ),
        parameters.get("sts_endpoint"),
    )


def _gcp(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    return GcpToken()


_READERS: Final[dict[str, Callable[[OptionTable, dict[str, str]], TokenSettings]]] = {
    "azure": _azure,
    "azure_imds": _azure_imds,
    "aws_iam": _aws_iam,
    "gcp": _gcp,
}
