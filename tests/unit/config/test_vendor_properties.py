"""Properties as the vendors' documentation has them, read as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.login import (
    AwsLogin,
    AwsToken,
    ClientCredentialsSettings,
    GcpToken,
    Login,
    OAuthLogin,
    PlainLogin,
    ProvidedToken,
    ScramLogin,
    login_of,
)
from aioproducer.errors import ConfigError

CONFLUENT_CLOUD = """
# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-1.eu-north-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username='KEY' password='hunter2';
sasl.mechanism=PLAIN
# Required for correctness in Apache Kafka clients prior to 2.6
client.dns.lookup=use_all_dns_ips

# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000

# Best practice for Kafka producer to prevent data loss
acks=all

# Required connection configs for Confluent Cloud Schema Registry
schema.registry.url=https://psrc-1.eu-north-1.aws.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=KEY:hunter2
"""

CONFLUENT_CLOUD_OAUTH = r"""
bootstrap.servers=pkc-1.eu-north-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler
sasl.oauthbearer.token.endpoint.url=https://login.example/oauth2/v1/token
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
  clientId='shop' \
  clientSecret='hunter2' \
  scope='kafka' \
  extension_logicalCluster='lkc-1' \
  extension_identityPoolId='pool-1';
"""

MSK_IAM = """
bootstrap.servers=b-1.shop.a1.c2.kafka.eu-north-1.amazonaws.com:9098
security.protocol = SASL_SSL
sasl.mechanism = AWS_MSK_IAM
sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="shop";
sasl.client.callback.handler.class = software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""

MSK_SCRAM = """
bootstrap.servers=b-1.shop.a1.c2.kafka.eu-north-1.amazonaws.com:9096
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="alice" \
  password="hunter2";
"""

EVENT_HUBS = """
bootstrap.servers=shop.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="$ConnectionString" password="Endpoint=sb://shop.servicebus.windows.net/;\
SharedAccessKeyName=send;SharedAccessKey=hunter2=";
"""

GOOGLE = """
bootstrap.servers=bootstrap.shop.europe-north1.managedkafka.p.cloud.goog:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 username="shop@p.iam.gserviceaccount.com" \
 password="hunter2";
"""

AIVEN_MTLS = """
bootstrap.servers=kafka-shop.aivencloud.com:12345
security.protocol=SSL
ssl.protocol=TLS
ssl.key.password=hunter2
ssl.keystore.location=/etc/client.keystore.p12
ssl.keystore.password=hunter2
ssl.keystore.type=PKCS12
ssl.truststore.location=/etc/client.truststore.jks
ssl.truststore.password=hunter2
ssl.truststore.type=JKS
"""

STRIMZI_PEM = """
bootstrap.servers=shop-kafka-bootstrap:9093
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location=/etc/cluster-ca/ca.crt
ssl.keystore.type=PEM
ssl.keystore.location=/etc/user/user.pem
"""

STRIMZI_SCRAM = """
bootstrap.servers=shop-kafka-bootstrap:9093
security.protocol=SASL_SSL
ssl.truststore.type=PKCS12
ssl.truststore.location=/etc/cluster-ca/ca.p12
ssl.truststore.password=hunter2
ssl.endpoint.identification.algorithm=
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username=alice password=hunter2;
"""

DATABRICKS = """
bootstrap.servers=b-1.shop.a1.c2.kafka.eu-north-1.amazonaws.com:9098
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=shadedmskiam.software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=\
shadedmskiam.software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""

PASSWORD = Secret("hunter2")
LOGINS: list[tuple[str, Login | None]] = [
    (CONFLUENT_CLOUD, PlainLogin("KEY", PASSWORD)),
    (
        CONFLUENT_CLOUD_OAUTH,
        OAuthLogin(
            ClientCredentialsSettings(
                "https://login.example/oauth2/v1/token",
                "shop",
                PASSWORD,
                "kafka",
                header_urlencode=False,
            ),
            (("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1")),
        ),
    ),
    (MSK_IAM, AwsLogin(profile_name="shop")),
    (MSK_SCRAM, ScramLogin("SCRAM-SHA-512", "alice", PASSWORD)),
    (
        EVENT_HUBS,
        PlainLogin(
            "$ConnectionString",
            Secret(
                "Endpoint=sb://shop.servicebus.windows.net/;"
                "SharedAccessKeyName=send;SharedAccessKey=hunter2="
            ),
        ),
    ),
    (GOOGLE, PlainLogin("shop@p.iam.gserviceaccount.com", PASSWORD)),
    (AIVEN_MTLS, None),
    (STRIMZI_PEM, None),
    (STRIMZI_SCRAM, ScramLogin("SCRAM-SHA-512", "alice", PASSWORD)),
    (DATABRICKS, AwsLogin()),
]


def read(text: str, tmp_path: Path, **overrides: str) -> ProducerConfig:
    path = tmp_path / "client.properties"
    path.write_text(text, "utf-8")
    return ProducerConfig.from_properties(path, **overrides)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "login"), LOGINS)
def test_logins(
    text: str, login: Login | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = read(text, tmp_path)
    assert login_of(made) == login
    assert made.security_protocol == ("SASL_SSL" if login else "SSL")
    assert "hunter2" not in f"{made!r} {login_of(made)!r} {caplog.text}"


def test_pem_files(tmp_path: Path) -> None:
    made = read(STRIMZI_PEM, tmp_path)
    assert (made.ssl_truststore_type, made.ssl_keystore_type) == ("PEM", "PEM")
    assert made.ssl_truststore_location == "/etc/cluster-ca/ca.crt"
    assert made.ssl_keystore_location == "/etc/user/user.pem"
    assert made.ssl_endpoint_identification_algorithm == "https"


def test_pkcs12_files(tmp_path: Path) -> None:
    made = read(AIVEN_MTLS, tmp_path)
    assert (made.ssl_keystore_type, made.ssl_truststore_type) == ("PKCS12", "JKS")
    assert made.ssl_keystore_password == made.ssl_key_password == PASSWORD
    assert made.ssl_protocol == "TLS"
    assert read(STRIMZI_SCRAM, tmp_path).ssl_endpoint_identification_algorithm == ""


def test_what_belongs_to_others_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(CONFLUENT_CLOUD, tmp_path)
    assert "session.timeout.ms (it is an option of Kafka's consumer" in caplog.text
    assert "basic.auth.user.info (aioproducer.schema_registry reads it" in caplog.text


GOOGLE_TOKENS = """
bootstrap.servers=bootstrap.shop.europe-north1.managedkafka.p.cloud.goog:9092
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
"""

AZURE_TOKENS = """
bootstrap.servers=shop.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=\\
com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
"""

MSK_TOKENS = """
bootstrap.servers=b-1.shop.a1.c2.kafka.eu-north-1.amazonaws.com:9098
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
"""


def test_handlers_of_vendors_have_their_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Handler'.*_metadata_authentication_type='azure'"):
        read(AZURE_TOKENS, tmp_path)
    made = read(AZURE_TOKENS, tmp_path, sasl_oauthbearer_token_provider="shop.tokens:token")
    assert login_of(made) == OAuthLogin(ProvidedToken("shop.tokens:token"))


def test_tokens_of_google_are_those_of_the_machine(tmp_path: Path) -> None:
    assert login_of(read(GOOGLE_TOKENS, tmp_path)) == OAuthLogin(GcpToken())
    made = read(GOOGLE_TOKENS, tmp_path, sasl_oauthbearer_token_provider="shop.tokens:token")
    assert login_of(made) == OAuthLogin(ProvidedToken("shop.tokens:token"))


def test_tokens_of_amazon_are_made_of_aws_credentials(tmp_path: Path) -> None:
    made = read(MSK_TOKENS, tmp_path)
    assert login_of(made) == OAuthLogin(AwsToken(AwsLogin()))
    profile = MSK_TOKENS.replace("Module required;", 'Module required awsProfileName="shop";')
    login = login_of(read(profile, tmp_path))
    assert login == OAuthLogin(AwsToken(AwsLogin(profile_name="shop")))
    given = read(MSK_TOKENS, tmp_path, sasl_oauthbearer_token_provider="shop.tokens:token")
    assert login_of(given) == OAuthLogin(ProvidedToken("shop.tokens:token"))
