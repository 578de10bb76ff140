"""Java's properties: JAAS, files, and the vendors' documentation read as it is."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.aws_msk_iam import AwsLogin, AwsOptions
from aioproducer.auth.gcp import GcpIdentity
from aioproducer.auth.jaas import parse_jaas
from aioproducer.auth.mechanism import Login
from aioproducer.auth.oauth_login import ClientCredentialsSettings, OAuthLogin
from aioproducer.auth.passwords import PlainLogin, ScramLogin
from aioproducer.config import ProducerConfig
from aioproducer.config.login import login_of
from aioproducer.config.properties import decode_properties, parse_properties
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret


def parse(text: str) -> dict[str, str]:
    return parse_properties(Secret(text), origin="client.properties")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n\r\n  \t\n", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t= \f b  ", {"a": "b  "}),
        ("a == b", {"a": "= b"}),
        ("a : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=b\n  ! c=d\ne=f", {"e": "f"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("# ends in a backslash \\\na=b", {"a": "b"}),
        ("a=b\\\n   c\\\r\n\td\ne=f", {"a": "bcd", "e": "f"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# part of it", {"a": "b# part of it"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n  \\\na=b", {"a": "b"}),
        ("\\\n", {}),
        ("\\\n#a\nb=c", {"b": "c"}),
        (r"a\=\:\ b=c", {"a=: b": "c"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u0041\u00e9\u20AC", {"a": "Aé€"}),
        (r"a=\uD83D\uDE00", {"a": "😀"}),
        (r"a=\\u0041", {"a": r"\u0041"}),
        (r"\u0061=b", {"a": "b"}),
        (r"a\u003db=c", {"a=b": "c"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\x0bc\x85d\u2028e", {"a": "b\x0bc\x85d\u2028e"}),
    ],
)
def test_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\uD800"])
def test_malformed_escape_names_the_line_and_hides_the_value(escape: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"# comment\n\npassword=hunter2{escape}\n")
    assert str(caught.value).startswith("client.properties, line 3: malformed \\u escape")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "data", ["a=é".encode(), b"\xef\xbb\xbfa=\xc3\xa9", "a=é".encode("latin-1"), b"a=\\u00e9"]
)
def test_encodings(data: bytes) -> None:
    assert parse(decode_properties(data).reveal()) == {"a": "é"}


def escaped(text: str) -> str:
    def one(character: str) -> str:
        if character in "\t\n\r\f":
            return {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character]
        if character in "\\=:#! ":
            return "\\" + character
        if " " < character <= "~":
            return character
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    return "".join(map(one, text))


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\\=:#! \t\n\r\fu"))
BREAKS = st.sampled_from(["\n", "\r\n", "\r", "\n# comment\\\n", "\n\n \t\n"])
SEPARATORS = st.sampled_from(["=", ":", " ", " = ", "\t:\f"])


@given(st.dictionaries(TEXT, TEXT), st.data())
def test_what_is_written_is_read(pairs: dict[str, str], data: st.DataObject) -> None:
    written = "".join(
        f"{escaped(key)}{data.draw(SEPARATORS) if key else '='}{escaped(value)}{data.draw(BREAKS)}"
        for key, value in pairs.items()
    )
    assert parse(written) == pairs
    assert parse(decode_properties(written.encode()).reveal()) == pairs


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse(text), dict)


MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f"{MODULE} required;", {}),
        (
            f'{MODULE} required username="alice" password="s3cret";',
            {"username": "alice", "password": "s3cret"},
        ),
        (
            f"{MODULE}  REQUIRED\n username='alice'\n password = bob ;",
            {"username": "alice", "password": "bob"},
        ),
        (f'{MODULE} required password="a;b=c \' //d /*e*/";', {"password": "a;b=c ' //d /*e*/"}),
        (f"{MODULE} required password='say \"x\"';", {"password": 'say "x"'}),
        (rf'{MODULE} required password="q\"b\\s\tt\101\q";', {"password": 'q"b\\s\ttAq'}),
        (f"/* x */ {MODULE} required // y\n useTicketCache=true; ", {"useTicketCache": "true"}),
        (f'{MODULE} required a="1" a="2";', {"a": "2"}),
        (f'{MODULE} required password="";', {"password": ""}),
        (f'{MODULE} required password="пароль€";', {"password": "пароль€"}),
    ],
)
def test_lines(line: str, options: dict[str, str]) -> None:
    for given_line in (line, Secret(line)):
        entry = parse_jaas(given_line)
        assert (entry.login_module, entry.control_flag) == (MODULE, "required")
        assert {name: secret.reveal() for name, secret in entry.options} | options == options
        for name, value in options.items():
            assert entry.get(name) == Secret(value)
    assert entry.get("missing") is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "at character 1: the login module's class name"),
        ("M", "at character 2: the control flag was expected"),
        ("M hunter2 a=b;", "the control flag must be one of required"),
        ('M required password="hunter2"', "the closing ';' is missing"),
        ('M required password="hunter2;', "an unclosed quote"),
        ("M required password=hunter2", "the closing ';' is missing"),
        ("M required password=;", "at character 21: a value was expected"),
        ("M required password;", "'=' was expected"),
        ('M required password "hunter2";', "'=' was expected"),
        ("M required password=hunter2 hunter2;", "'=' was expected"),
        ("M required 'hunter2'=a;", "an option's name was expected"),
        ("M required password=hunter2!;", "a character that must be in quotes"),
        ("M required a=hunter2; N required b=hunter2;", "exactly one login module"),
    ],
)
def test_malformed_lines_leak_nothing(line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        parse_jaas(line)
    error = caught.value
    assert str(error).startswith("sasl_jaas_config: at character ")
    assert "hunter2" not in str(error) + repr(error)
    assert error.__cause__ is None
    assert error.__context__ is None


@given(st.text(alphabet="ab=;'\"\\ /*\n", max_size=30))
def test_any_line_is_read_or_refused(line: str) -> None:
    try:
        entry = parse_jaas(f"M required {line}")
    except ConfigError:
        return
    assert entry.login_module == "M"


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
    (MSK_IAM, AwsLogin(options=AwsOptions("shop"))),
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
    assert "session.timeout.ms (an option of Kafka's consumer" in caplog.text
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
    assert login_of(made) == OAuthLogin("shop.tokens:token")


def test_tokens_of_google_are_those_of_the_machine(tmp_path: Path) -> None:
    assert login_of(read(GOOGLE_TOKENS, tmp_path)) == OAuthLogin(GcpIdentity())
    made = read(GOOGLE_TOKENS, tmp_path, sasl_oauthbearer_token_provider="shop.tokens:token")
    assert login_of(made) == OAuthLogin("shop.tokens:token")


def test_tokens_of_amazon_are_made_of_aws_credentials(tmp_path: Path) -> None:
    made = read(MSK_TOKENS, tmp_path)
    assert login_of(made) == OAuthLogin(AwsLogin())
    profile = MSK_TOKENS.replace("Module required;", 'Module required awsProfileName="shop";')
    login = login_of(read(profile, tmp_path))
    assert login == OAuthLogin(AwsLogin(options=AwsOptions("shop")))
    given = read(MSK_TOKENS, tmp_path, sasl_oauthbearer_token_provider="shop.tokens:token")
    assert login_of(given) == OAuthLogin("shop.tokens:token")
