"""Logins with the identity of a cloud's machine, by our options, librdkafka's and Java's."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.config.librdkafka import OauthCallback
from aioproducer.config.login import (
    AwsWebIdentityToken,
    AzureImdsToken,
    AzureToken,
    GcpToken,
    OAuthLogin,
    TokenSettings,
    login_of,
)
from aioproducer.errors import ConfigError

HUB = "space.servicebus.windows.net"
TYPE = "sasl_oauthbearer_metadata_authentication_type"
PARAMETERS = "sasl_oauthbearer_config"
IMDS = "http://169.254.169.254/metadata/identity/oauth2/token"
QUERY = "api-version=2025-04-07&resource=api://cluster&client_id=client-1"
GCP_HANDLER = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
LIBRDKAFKA: dict[str, Any] = {
    "bootstrap.servers": "kafka.example:9093",
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}
JAVA = {
    "bootstrap.servers": "kafka.example:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
}


def configured(kind: str, parameters: str | None = None, **options: Any) -> ProducerConfig:
    secured: dict[str, Any] = {
        "bootstrap_servers": "kafka.example:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        TYPE: kind,
        PARAMETERS: parameters,
    }
    return ProducerConfig(**{**secured, **options})


def source_of(config: ProducerConfig) -> TokenSettings:
    found = login_of(config)
    assert isinstance(found, OAuthLogin)
    return found.source


def imds(url: str, query: str) -> AzureImdsToken:
    return AzureImdsToken(f"{url}?{query}")


@pytest.mark.parametrize(
    ("config", "source"),
    [
        (
            configured("azure", bootstrap_servers=f"{HUB.upper()}:9093"),
            AzureToken(f"https://{HUB}"),
        ),
        (
            configured("azure", "client_id=client-1", bootstrap_servers=["a:1", f"{HUB}:9093"]),
            AzureToken(f"https://{HUB}", "client-1"),
        ),
        (
            configured(
                "Azure", " resource = api://x , client_id = c ", bootstrap_servers=f"{HUB}:9093"
            ),
            AzureToken("api://x", "c"),
        ),
        (configured("azure_imds", f"query={QUERY}"), imds(IMDS, QUERY)),
        (
            configured(
                "azure_imds",
                "query=b=2",
                sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/token?a=1",
            ),
            AzureImdsToken("http://127.0.0.1:1/token?a=1&b=2"),
        ),
        (
            configured("aws_iam", "region=eu-west-1,audience=https://confluent.cloud/oidc"),
            AwsWebIdentityToken("eu-west-1", "https://confluent.cloud/oidc", 300, "ES384"),
        ),
        (
            configured(
                "aws_iam",
                r"audience=a\,b,duration_seconds=3600,signing_algorithm=RS256,tag_team=x,"
                "sts_endpoint=https://sts.example,tag_app=orders,aws_debug=none",
                sasl_aws_region="eu-west-1",
            ),
            AwsWebIdentityToken(
                "eu-west-1",
                "a,b",
                3600,
                "RS256",
                (("app", "orders"), ("team", "x")),
                "https://sts.example",
            ),
        ),
        (configured("gcp"), GcpToken()),
    ],
)
def test_sources(config: ProducerConfig, source: TokenSettings) -> None:
    assert source_of(config) == source
    assert source_of(pickle.loads(pickle.dumps(config))) == source


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("azure", None, f"{PARAMETERS}='resource=…', the application ID URI of the cluster"),
        ("azure", "client_id=c", "no name in bootstrap_servers is one of Azure Event Hubs"),
        ("azure", "hunter2", "must have the form 'key=value,key=value'"),
        ("azure", "resource=", "must have the form 'key=value,key=value'"),
        ("azure", "query=x", "the key 'query' is unknown for .*; its keys are resource, client_id"),
        ("azure_imds", None, "needs sasl_oauthbearer_config='query=api-version=2018-02-01&resourc"),
        ("azure_imds", "params=x", "the key 'params' is unknown .*; its keys are query"),
        ("aws_iam", "region=eu-west-1", "for Amazon MSK set sasl_mechanism='AWS_MSK_IAM'"),
        ("aws_iam", "audience=a", "needs sasl_oauthbearer_config='region=…,audience=…'"),
        ("aws_iam", "region=r,audience=a,duration_seconds=soon", "duration_seconds='soon' must be"),
        ("aws_iam", "region=r,audience=a,aws_debug=console", "aws_debug would print credentials"),
        ("aws_iam", "region=r,audience=a,tag_=x", "the key 'tag_' is unknown .* tag_NAME"),
        ("gcp", "scope=x", "the key 'scope' is unknown for .*='gcp'; it has none: remove the opt"),
        ("none", "resource=x", f"has no use without {TYPE}: set that, or remove it"),
        ("imds", None, f"{TYPE}='imds'.*: expected 'none', 'azure', 'azure_imds', 'aws_iam' or"),
    ],
)
def test_what_is_missing_or_wrong(kind: str, parameters: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        login_of(configured(kind, parameters))
    assert "hunter2" not in str(caught.value)


def test_azure_imds_of_librdkafka() -> None:
    config = ProducerConfig.from_librdkafka(
        {
            **LIBRDKAFKA,
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.config": f"query={QUERY}",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        }
    )
    assert login_of(config) == OAuthLogin(
        imds(IMDS, QUERY), (("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1"))
    )


def test_aws_iam_of_confluent_kafka() -> None:
    config = ProducerConfig.from_librdkafka(
        {
            **LIBRDKAFKA,
            "sasl.oauthbearer.metadata.authentication.type": "aws_iam",
            "sasl.oauthbearer.config": "region=us-east-1,audience=https://confluent.cloud/oidc",
        }
    )
    assert source_of(config) == AwsWebIdentityToken(
        "us-east-1", "https://confluent.cloud/oidc", 300, "ES384"
    )


def answer(config: str) -> tuple[str, float]:
    return f"token of {config}", 1e10


def test_librdkafka_asks_oauth_cb_first() -> None:
    config = ProducerConfig.from_librdkafka(
        {
            **LIBRDKAFKA,
            "oauth_cb": answer,
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.config": "hunter2",
        }
    )
    provider = config.sasl_oauthbearer_token_provider
    assert isinstance(provider, OauthCallback)
    assert provider() == ("token of hunter2", 1e10)


def test_a_provider_replaces_librdkafkas() -> None:
    config = ProducerConfig.from_librdkafka(
        {**LIBRDKAFKA, "sasl.oauthbearer.metadata.authentication.type": "none"},
        sasl_oauthbearer_token_provider=lambda: "token",
    )
    assert config.sasl_oauthbearer_token_provider is not None


def test_the_handler_of_google_in_a_properties_file() -> None:
    config = ProducerConfig.from_properties(
        {**JAVA, "sasl.login.callback.handler.class": GCP_HANDLER}
    )
    assert source_of(config) == GcpToken()


def test_our_type_in_a_properties_file() -> None:
    config = ProducerConfig.from_properties(
        {
            **JAVA,
            "bootstrap.servers": f"{HUB}:9093",
            "sasl.oauthbearer.metadata.authentication.type": "azure",
        }
    )
    assert source_of(config) == AzureToken(f"https://{HUB}")


def test_the_handler_of_spring_says_what_to_set() -> None:
    handler = (
        "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler"
    )
    with pytest.raises(ConfigError, match=f"set {TYPE}='azure'"):
        login_of(
            ProducerConfig.from_properties({**JAVA, "sasl.login.callback.handler.class": handler})
        )
