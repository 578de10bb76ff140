"""The login that a configuration asks for, by our options, librdkafka's and Java's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from aioproducer.auth.aws_msk_iam import AwsLogin, AwsOptions
from aioproducer.auth.aws_web_identity import AwsWebIdentity
from aioproducer.auth.azure import AzureIdentity, AzureImds
from aioproducer.auth.gcp import GcpIdentity
from aioproducer.auth.gssapi import KerberosLogin
from aioproducer.auth.oauth_login import ClientCredentialsSettings, JwtBearerSettings, OAuthLogin
from aioproducer.auth.passwords import PlainLogin, ScramLogin
from aioproducer.auth.providers import ProvidedLogin
from aioproducer.auth.token_endpoint import AssertionFile, SignedAssertion, TokenFile
from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.librdkafka import OauthCallback
from aioproducer.config.login import login_of
from aioproducer.errors import ConfigError

KAFKA = "org.apache.kafka.common.security"
PLAIN = f"{KAFKA}.plain.PlainLoginModule required"
SCRAM = f"{KAFKA}.scram.ScramLoginModule required"
OAUTH = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
AWS = "software.amazon.msk.auth.iam.IAMLoginModule required"
URL = "https://login.example/token"
PASSWORD = Secret("hunter2")


def secured(mechanism: str | None = None, **options: Any) -> ProducerConfig:
    made = {"bootstrap_servers": "kafka.example:9093", "security_protocol": "SASL_SSL", **options}
    return ProducerConfig(**made, **({} if mechanism is None else {("sasl_mechanism"): mechanism}))  # type: ignore[arg-type]


def oauth(name: str) -> str:
    return f"sasl_oauthbearer_{name}"


CREDENTIALS = {
    oauth("token_endpoint_url"): URL,
    oauth("client_credentials_client_id"): "shop",
    oauth("client_credentials_client_secret"): "hunter2",
}
FROM_URL = ClientCredentialsSettings(URL, "shop", PASSWORD, None, False)


@pytest.mark.parametrize(
    ("mechanism", "options", "login"),
    [
        (
            "PLAIN",
            {"sasl_username": "alice", "sasl_password": "hunter2"},
            PlainLogin("alice", PASSWORD),
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";'},
            PlainLogin("alice", PASSWORD),
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": f"kafkashaded.{PLAIN} username='alice' password='hunter2';"},
            PlainLogin("alice", PASSWORD),
        ),
        (
            "PLAIN",
            {
                "sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";',
                "sasl_username": "alice",
            },
            PlainLogin("alice", PASSWORD),
        ),
        (
            "SCRAM-SHA-512",
            {"sasl_username": "alice", "sasl_password": Secret("hunter2")},
            ScramLogin("SCRAM-SHA-512", "alice", PASSWORD),
        ),
        (
            "SCRAM-SHA-256",
            {"sasl_jaas_config": f'{SCRAM} username="alice" password="hunter2" tokenauth="true";'},
            ScramLogin("SCRAM-SHA-256", "alice", PASSWORD, token_auth=True),
        ),
        (
            "SCRAM-SHA-256",
            {"sasl_credentials_provider": "shop.vault:kafka"},
            ProvidedLogin("SCRAM-SHA-256", "shop.vault:kafka"),
        ),
        (
            "SCRAM-SHA-256",
            {
                "sasl_credentials_provider": "shop.vault:kafka",
                "sasl_jaas_config": f"{SCRAM} tokenauth=true;",
            },
            ProvidedLogin("SCRAM-SHA-256", "shop.vault:kafka", token_auth=True),
        ),
        ("GSSAPI", {"sasl_kerberos_service_name": "kafka"}, KerberosLogin("kafka")),
        (
            None,
            {"sasl_kerberos_service_name": "kafka", "sasl_kerberos_keytab": "/k"},
            KerberosLogin("kafka", keytab="/k"),
        ),
        (
            None,
            {
                "sasl_jaas_config": f'{KERBEROS} useKeyTab=true storeKey=true keyTab="/etc/k"'
                ' principal="shop@EXAMPLE.COM" serviceName="kafka";'
            },
            KerberosLogin("kafka", "shop@EXAMPLE.COM", "/etc/k"),
        ),
        (
            "GSSAPI",
            {
                "sasl_kerberos_service_name": "kafka",
                "sasl_jaas_config": f'{KERBEROS} useTicketCache=true ticketCache="/tmp/krb5cc";',
            },
            KerberosLogin("kafka", ticket_cache="/tmp/krb5cc"),
        ),
        ("AWS_MSK_IAM", {}, AwsLogin()),
        (
            "AWS_MSK_IAM",
            {"sasl_aws_profile_name": "shop", "sasl_aws_region": "eu-north-1"},
            AwsLogin("eu-north-1", AwsOptions("shop")),
        ),
        (
            "AWS_MSK_IAM",
            {
                "sasl_jaas_config": f'{AWS} awsRoleArn="arn:r" awsRoleSessionName="s"'
                ' awsRoleExternalId="e" awsStsRegion="eu-west-1" awsRoleAccessKeyId="k"'
                ' awsRoleSecretAccessKey="hunter2" awsRoleSessionToken="t";'
            },
            AwsLogin(
                None,
                AwsOptions(
                    None, "arn:r", "s", "e", "eu-west-1", Secret("k"), PASSWORD, Secret("t")
                ),
            ),
        ),
        ("OAUTHBEARER", {oauth("token_provider"): "a.b:c"}, OAuthLogin("a.b:c")),
        ("OAUTHBEARER", {oauth("token_provider"): print}, OAuthLogin(print)),
        (
            "OAUTHBEARER",
            {
                oauth("token_provider"): "a:b",
                "sasl_jaas_config": f"{OAUTH};",
                "sasl_login_callback_handler_class": "com.example.Tokens",
            },
            OAuthLogin("a:b"),
        ),
        ("OAUTHBEARER", CREDENTIALS, OAuthLogin(FROM_URL)),
        (
            "OAUTHBEARER",
            {
                oauth("token_endpoint_url"): URL,
                oauth("extensions"): {"identityPoolId": "pool-2"},
                "sasl_jaas_config": f"{OAUTH} clientId='shop' clientSecret='hunter2' scope='kafka'"
                " extension_logicalCluster='lkc-1' extension_identityPoolId='pool-1';",
                "sasl_login_callback_handler_class": (
                    f"{KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
                ),
            },
            OAuthLogin(
                ClientCredentialsSettings(URL, "shop", PASSWORD, "kafka", False),
                (("logicalCluster", "lkc-1"), ("identityPoolId", "pool-2")),
            ),
        ),
        (
            "OAUTHBEARER",
            {oauth("token_endpoint_url"): "file:///var/run/my%20token"},
            OAuthLogin(TokenFile(Path("/var/run/my token"))),
        ),
        (
            "OAUTHBEARER",
            {
                oauth("token_endpoint_url"): URL,
                oauth("scope"): "kafka",
                oauth("assertion_file"): "/a.jwt",
                oauth("jwt_retriever_class"): f"{KAFKA}.oauthbearer.JwtBearerJwtRetriever",
            },
            OAuthLogin(JwtBearerSettings(URL, "kafka", AssertionFile(Path("/a.jwt")))),
        ),
        (
            "OAUTHBEARER",
            {
                oauth("token_endpoint_url"): URL,
                oauth("client_credentials_client_id"): "shop",
                oauth("assertion_claim_iss"): "shop",
                oauth("assertion_private_key_file"): "/key.pem",
                oauth("assertion_private_key_passphrase"): "hunter2",
                oauth("assertion_algorithm"): "es256",
            },
            OAuthLogin(
                ClientCredentialsSettings(
                    URL,
                    "shop",
                    None,
                    None,
                    False,
                    SignedAssertion(
                        Path("/key.pem"),
                        algorithm="ES256",
                        passphrase=PASSWORD,
                        template_file=None,
                        claims=(("iss", "shop"),),
                        seconds=(300, 60),
                        include_jti=False,
                    ),
                )
            ),
        ),
    ],
)
def test_logins(mechanism: str | None, options: dict[str, Any], login: object) -> None:
    config = secured(mechanism, **options)
    made = login_of(config)
    assert made == login
    assert config.sasl_mechanism == (mechanism or "GSSAPI")
    assert "hunter2" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == login


def test_a_protocol_without_a_login_has_none() -> None:
    for protocol in ("PLAINTEXT", "SSL"):
        assert login_of(secured(security_protocol=protocol)) is None


def test_a_mechanism_that_was_found_out_is_found_out_anew() -> None:
    config = secured(sasl_kerberos_service_name="kafka")
    assert config.sasl_mechanism == "GSSAPI"
    other = config.replace(
        sasl_kerberos_service_name=None,
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="hunter2",
    )
    assert login_of(other) == PlainLogin("alice", PASSWORD)


RETRIEVER = oauth("jwt_retriever_class")


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (None, {}, "needs sasl_mechanism, which is not set; it is one of PLAIN, SCRAM-SHA-256"),
        (
            None,
            {"sasl_jaas_config": f'{SCRAM} username="alice" password="hunter2";'},
            "it is one of SCRAM-SHA-256, SCRAM-SHA-512 for this login module",
        ),
        ("PLAIN", {}, "needs sasl_username, or username in sasl_jaas_config"),
        ("SCRAM-SHA-256", {"sasl_username": "alice"}, "needs sasl_password, or password in"),
        (
            "PLAIN",
            {
                "sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";',
                "sasl_username": "bob",
            },
            "sasl_username and username of sasl_jaas_config differ: set one of them",
        ),
        (
            "PLAIN",
            {
                "sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";',
                "sasl_password": "hunter22",
            },
            "sasl_password and password of sasl_jaas_config differ",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": f'{SCRAM} username="alice" password="hunter2";'},
            "sasl_mechanism='PLAIN' and sasl_jaas_config contradict each other: the login module is"
            " for SCRAM-SHA-256 and SCRAM-SHA-512; set sasl_mechanism to that",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": "com.example.MyLoginModule required;"},
            "login module com.example.MyLoginModule is not supported; use one of PlainLoginModule",
        ),
        ("PLAIN", {"sasl_jaas_config": "hunter2 required;"}, "the login module is not supported"),
        (
            "AWS_MSK_IAM",
            {"sasl_username": "alice"},
            "sasl_username is for sasl_mechanism 'PLAIN' or 'SCRAM-SHA-256' or 'SCRAM-SHA-512', not"
            " 'AWS_MSK_IAM': set that, or remove sasl_username",
        ),
        (
            "PLAIN",
            {oauth("token_provider"): "a:b", "sasl_username": "a", "sasl_password": "hunter2"},
            "sasl_oauthbearer_token_provider is for sasl_mechanism 'OAUTHBEARER', not 'PLAIN'",
        ),
        (
            "PLAIN",
            {"sasl_credentials_provider": "a:b", "sasl_password": "hunter2"},
            "sasl_credentials_provider and sasl_password (or password in sasl_jaas_config) are two"
            " sources of credentials: set only one",
        ),
        (
            "PLAIN",
            {
                "sasl_credentials_provider": "a:b",
                "sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";',
            },
            "sasl_credentials_provider and sasl_username (or username in sasl_jaas_config) are two",
        ),
        (
            "GSSAPI",
            {"sasl_credentials_provider": "a:b", "sasl_kerberos_service_name": "kafka"},
            "sasl_credentials_provider is for sasl_mechanism 'PLAIN' or 'SCRAM-SHA-256' or",
        ),
        ("GSSAPI", {}, "needs sasl_kerberos_service_name (or serviceName in sasl_jaas_config)"),
        (
            "GSSAPI",
            {"sasl_jaas_config": f"{KERBEROS} useKeyTab=true serviceName=kafka;"},
            "useKeyTab=true needs keyTab",
        ),
        (
            "GSSAPI",
            {"sasl_jaas_config": f"{KERBEROS} serviceName=kafka;"},
            "would ask for a password",
        ),
        (
            "GSSAPI",
            {
                "sasl_jaas_config": f"{KERBEROS} useTicketCache=true serviceName=kafka;",
                "sasl_kerberos_service_name": "broker",
            },
            "sasl_kerberos_service_name and serviceName of sasl_jaas_config differ",
        ),
        (
            "AWS_MSK_IAM",
            {"sasl_jaas_config": f'{AWS} awsRoleArn="r" awsRoleAccessKeyId="hunter2";'},
            "awsRoleAccessKeyId and awsRoleSecretAccessKey belong together",
        ),
        ("AWS_MSK_IAM", {"sasl_aws_role_session_name": "s"}, "set sasl_aws_role_arn"),
        (
            "PLAIN",
            {
                "sasl_username": "a",
                "sasl_password": "hunter2",
                "sasl_login_callback_handler_class": "com.example.Handler",
            },
            "sasl_login_callback_handler_class='com.example.Handler': Java classes cannot be",
        ),
        (
            "PLAIN",
            {
                "sasl_username": "a",
                "sasl_password": "hunter2",
                "sasl_client_callback_handler_class": (
                    "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
                ),
            },
            "is for sasl_mechanism 'AWS_MSK_IAM', not 'PLAIN'",
        ),
        ("AWS_MSK_IAM", {"sasl_login_class": "com.example.L"}, "sasl_login_class='com.example.L'"),
        (
            "AWS_MSK_IAM",
            {"sasl_client_callback_handler_class": "com.example.C"},
            "sasl_client_callback_handler_class='com.example.C': Java classes cannot be loaded",
        ),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f"{OAUTH};"},
            "needs sasl_oauthbearer_token_provider, or sasl_oauthbearer_token_endpoint_url with",
        ),
        (
            "OAUTHBEARER",
            {oauth("token_provider"): "a:b", oauth("metadata_authentication_type"): "azure"},
            "and sasl_oauthbearer_metadata_authentication_type are two sources of tokens",
        ),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f'{OAUTH} unsecuredLoginStringClaim_sub="hunter2";'},
            "creates unsigned tokens",
        ),
        (
            "OAUTHBEARER",
            {**CREDENTIALS, oauth("token_provider"): "a:b"},
            "are two sources of tokens: set only one",
        ),
        (
            "OAUTHBEARER",
            {**CREDENTIALS, "sasl_login_callback_handler_class": "com.example.Tokens"},
            "sasl_login_callback_handler_class='com.example.Tokens': Java classes cannot be",
        ),
        (
            "OAUTHBEARER",
            {**CREDENTIALS, oauth("client_credentials_client_secret"): None},
            "need sasl_oauthbearer_client_credentials_client_secret (or clientSecret in",
        ),
        (
            "OAUTHBEARER",
            {oauth("token_endpoint_url"): URL},
            "need sasl_oauthbearer_client_credentials_client_id (or clientId in",
        ),
        ("OAUTHBEARER", {oauth("token_endpoint_url"): "login.example"}, "must be a URL, 'https:"),
        ("OAUTHBEARER", {oauth("token_endpoint_url"): "file://run/t"}, "not a local file"),
        ("OAUTHBEARER", {oauth("token_endpoint_url"): "file:t"}, "not a local file"),
        ("OAUTHBEARER", {oauth("token_endpoint_url"): "ftp://a/b"}, "must begin with 'https://'"),
        (
            "OAUTHBEARER",
            {oauth("token_endpoint_url"): URL, RETRIEVER: f"{KAFKA}.oauthbearer.FileJwtRetriever"},
            "must be a file, 'file:///",
        ),
        (
            "OAUTHBEARER",
            {oauth("token_endpoint_url"): URL, RETRIEVER: "com.example.Retriever"},
            "sasl_oauthbearer_jwt_retriever_class='com.example.Retriever': Java classes cannot be",
        ),
        (
            "OAUTHBEARER",
            {oauth("token_endpoint_url"): URL, RETRIEVER: "JwtBearerJwtRetriever"},
            "an assertion needs sasl_oauthbearer_assertion_private_key_file",
        ),
        (
            "OAUTHBEARER",
            {
                oauth("token_provider"): "a:b",
                "sasl_jaas_config": f"{OAUTH} extension_a_b='hunter2';",
            },
            "extension_NAME=value needs a name of only letters",
        ),
    ],
)
def test_what_is_missing_or_contradicts(
    mechanism: str | None, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        secured(mechanism, **options)
    assert message in str(caught.value)
    assert "hunter2" not in f"{caught.value} {caught.value!r}"


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


def source_of(config: ProducerConfig) -> object:
    found = login_of(config)
    assert isinstance(found, OAuthLogin)
    return found.source


def imds(url: str, query: str) -> AzureImds:
    return AzureImds(f"{url}?{query}")


@pytest.mark.parametrize(
    ("config", "source"),
    [
        (
            configured("azure", bootstrap_servers=f"{HUB.upper()}:9093"),
            AzureIdentity(f"https://{HUB}"),
        ),
        (
            configured("azure", "client_id=client-1", bootstrap_servers=["a:1", f"{HUB}:9093"]),
            AzureIdentity(f"https://{HUB}", "client-1"),
        ),
        (
            configured(
                "Azure", " resource = api://x , client_id = c ", bootstrap_servers=f"{HUB}:9093"
            ),
            AzureIdentity("api://x", "c"),
        ),
        (configured("azure_imds", f"query={QUERY}"), imds(IMDS, QUERY)),
        (
            configured(
                "azure_imds",
                "query=b=2",
                sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/token?a=1",
            ),
            AzureImds("http://127.0.0.1:1/token?a=1&b=2"),
        ),
        (
            configured("aws_iam", "region=eu-west-1,audience=https://confluent.cloud/oidc"),
            AwsWebIdentity("eu-west-1", "https://confluent.cloud/oidc", 300, "ES384"),
        ),
        (
            configured(
                "aws_iam",
                r"audience=a\,b,duration_seconds=3600,signing_algorithm=RS256,tag_team=x,"
                "sts_endpoint=https://sts.example,tag_app=orders,aws_debug=none",
                sasl_aws_region="eu-west-1",
            ),
            AwsWebIdentity(
                "eu-west-1",
                "a,b",
                3600,
                "RS256",
                (("app", "orders"), ("team", "x")),
                "https://sts.example",
            ),
        ),
        (configured("gcp"), GcpIdentity()),
    ],
)
def test_sources(config: ProducerConfig, source: object) -> None:
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
        ("aws_iam", "region=r,audience=a,duration_seconds=1", "duration_seconds=1 must be from 60"),
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
    assert source_of(config) == AwsWebIdentity(
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
    assert source_of(config) == GcpIdentity()


def test_our_type_in_a_properties_file() -> None:
    config = ProducerConfig.from_properties(
        {
            **JAVA,
            "bootstrap.servers": f"{HUB}:9093",
            "sasl.oauthbearer.metadata.authentication.type": "azure",
        }
    )
    assert source_of(config) == AzureIdentity(f"https://{HUB}")


def test_the_handler_of_spring_says_what_to_set() -> None:
    handler = (
        "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler"
    )
    with pytest.raises(ConfigError, match=f"set {TYPE}='azure'"):
        login_of(
            ProducerConfig.from_properties({**JAVA, "sasl.login.callback.handler.class": handler})
        )
