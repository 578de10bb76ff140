"""A broker with every kind of secured listener: what it is configured with, and who may come."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from aioproducer import Producer
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.certificates import Authority, kafka_broker_properties
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kerberos import KerberosRealm
from aioproducer.testing.oauth2_server import OAuth2Server
from tests.auth.requirement import say_that_there_is_no_kerberos
from tests.kafka.logins import SERVICE, kerberos_line, settings_of
from tests.kafka.sasl_wire import Login
from tests.kafka.transactional import Isolation, read

ISSUER, SHORT_ISSUER = "kafka", "short"
TOKEN_SECONDS: Final = 120
SESSION_SECONDS: Final = 2
"""After that the listener SHORT ends a connection that has not logged in again."""
PLAIN_USERS: Final = {"alice": "alice-secret", "limited": "limited-secret"}
PASSWORD: Final = "alice's, own=secret"
LIGATURE: Final = "\ufb01sh"
LET_IN: Final = Login(True, ErrorCode.NONE, "", 1)


def listeners() -> dict[str, str]:
    """By name, beside the plain-text one."""
    return {
        "TLS": "SSL",
        "MTLS": "SSL",
        "EXPIRED": "SSL",
        "ELSEWHERE": "SSL",
        "CLEAR": "SASL_PLAINTEXT",
        "LOGIN": "SASL_SSL",
        "SHORT": "SASL_SSL",
        "FEW": "SASL_SSL",
    }


def broker_settings(
    authority: Authority, realm: KerberosRealm | None, tokens: OAuth2Server
) -> dict[str, object]:
    """EXPIRED and ELSEWHERE: the certificate; SHORT: the session; FEW: the mechanisms."""
    kerberos = None if realm is None else kerberos_line(realm)
    between = Authority("Between", under=authority)
    server = between.issue("broker")
    expired = between.issue("broker", begins=-timedelta(days=2), ends=-timedelta(days=1))
    elsewhere = between.issue("broker", hosts=("broker.elsewhere.example",))
    mutual = {"trusts": authority, "client_auth": "required"}
    return {
        **kafka_broker_properties(server),
        **kafka_broker_properties(server, **mutual, listener="MTLS"),  # type: ignore[arg-type]
        **kafka_broker_properties(expired, listener="EXPIRED"),
        **kafka_broker_properties(elsewhere, listener="ELSEWHERE"),
        **settings_of("CLEAR", plain=PLAIN_USERS, kerberos=kerberos),
        **settings_of("LOGIN", plain=PLAIN_USERS, kerberos=kerberos, tokens=(tokens, ISSUER)),
        **settings_of("SHORT", plain=PLAIN_USERS, tokens=(tokens, SHORT_ISSUER)),
        **settings_of("FEW", plain={}, without=("PLAIN", "SCRAM-SHA-256")),
        "listener.name.short.connections.max.reauth.ms": SESSION_SECONDS * 1000,
        "sasl.oauthbearer.clock.skew.seconds": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }


@dataclass
class SecuredKafka:
    """The broker, and what clients need to come in."""

    cluster: KafkaCluster
    authority: Authority
    tokens: OAuth2Server
    realm: KerberosRealm | None
    directory: Path
    passwords: dict[str, str] = field(
        default_factory=lambda: {
            "alice": PASSWORD,
            "a=b,c": PASSWORD,
            "fish": LIGATURE,
            "last": PASSWORD,
        }
    )
    last_user = "last"

    def __post_init__(self) -> None:
        self.trusted = self.directory / "ca.pem"
        self.trusted.write_text(self.authority.pem)
        self.admin = AdminClient(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0}
        )

    # --- who comes -------------------------------------------------------------------------

    def add_users(self) -> None:
        for name, password in self.passwords.items():
            self.add_user(name, password, iterations=16384 if name == "a=b,c" else 4096)

    def add_user(self, name: str, password: str, iterations: int = 4096) -> None:
        """By Kafka's admin protocol, for both mechanisms."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, iterations)
            self._alter([UserScramCredentialUpsertion(name, info, password.encode())])

    def delete_user(self, name: str) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            self._alter([UserScramCredentialDeletion(name, mechanism)])

    def _alter(self, alterations: list[Any]) -> None:
        for altered in self.admin.alter_user_scram_credentials(alterations).values():
            altered.result(30)

    def deny(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """To the user ``limited``. Whoever is not named may do everything."""
        everything = [("User:*", AclOperation.ALL, AclPermissionType.ALLOW)]
        denied = [("User:limited", each, AclPermissionType.DENY) for each in operations]
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, who, "*", operation, permission)
            for who, operation, permission in everything + denied
        ]
        for created in self.admin.create_acls(bindings).values():
            created.result(30)

    # --- how they come ---------------------------------------------------------------------

    @property
    def trust(self) -> dict[str, Any]:
        return {"ssl_truststore_location": str(self.trusted), "ssl_truststore_type": "PEM"}

    def tls(self, listener: str = "TLS", **options: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers_of(listener),
            "security_protocol": "SSL",
            **({} if "ssl_context" in options else self.trust),
            **options,
        }

    def login(
        self,
        mechanism: str,
        user: str | None = None,
        password: str | None = None,
        listener: str = "LOGIN",
        **options: Any,
    ) -> dict[str, Any]:
        """The options of a producer that logs in by user and password, or by ``options``."""
        named = {} if user is None else {"sasl_username": user, "sasl_password": password}
        return self.tls(
            listener,
            **{
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": mechanism,
                **named,
                **options,
            },
        )

    def plain(self, user: str = "alice", **options: Any) -> dict[str, Any]:
        return self.login("PLAIN", user, PLAIN_USERS[user], **options)

    def oauth(
        self, client: str = "alice", *, issuer: str = ISSUER, **options: Any
    ) -> dict[str, Any]:
        """By client credentials; who has the same ones shares a token."""
        return self.login(
            "OAUTHBEARER",
            **{
                "sasl_oauthbearer_token_endpoint_url": f"{self.tokens.of(issuer)}/token",
                "sasl_oauthbearer_client_credentials_client_id": client,
                "sasl_oauthbearer_client_credentials_client_secret": "client-secret",
                **options,
            },
        )

    def kerberos(self, listener: str = "LOGIN") -> dict[str, Any]:
        """As a principal of its own; :func:`join` the realm before."""
        assert self.realm is not None
        name = uuid.uuid4().hex
        return self.login(
            "GSSAPI",
            listener=listener,
            sasl_kerberos_service_name=SERVICE,
            sasl_kerberos_principal=name,
            sasl_kerberos_keytab=str(self.realm.add_principal(name)),
        )

    def identity(self, name: str = "client") -> dict[str, Any]:
        """A client's certificate, as a PEM file."""
        file = self.authority.issue(name).write(self.directory / f"{name}.pem")
        return {"ssl_keystore_location": str(file), "ssl_keystore_type": "PEM"}

    # --- what they write -------------------------------------------------------------------

    async def topic(self, partitions: int = 1) -> str:
        name = uuid.uuid4().hex
        await self.cluster.create_topic(name, partitions)
        return name

    async def written(self, topic: str, isolation: Isolation = "read_committed") -> list[bytes]:
        """What librdkafka reads, each partition in the order of its log."""
        logs = await asyncio.to_thread(read, self.cluster, (topic,), isolation)
        return [value for log in logs.values() for value in log]


def join(realm: KerberosRealm | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is in the realm until the test's end."""
    if realm is None or find_spec("gssapi") is None:
        say_that_there_is_no_kerberos("it needs MIT's KDC and the package gssapi")
    monkeypatch.setenv("KRB5_CONFIG", str(realm.configuration))


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since


async def failures_of(
    options: dict[str, Any], topic: str, *, seconds: float = 60
) -> tuple[BaseException, BaseException]:
    """The errors of a first record and of a check, which have ``seconds``."""
    options = {"max_block_ms": int(seconds * 1000), **options}
    async with Producer(**options) as producer:
        sent, checked = await asyncio.gather(
            producer.send(topic, b"never"),
            producer.check(seconds, topics=[topic]),
            return_exceptions=True,
        )
    assert isinstance(sent, BaseException)
    assert isinstance(checked, BaseException)
    return sent, checked
