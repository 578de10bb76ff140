"""A cluster that lets nobody in without TLS, a certificate, a password or a token."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioproducer.testing.certificates import Authority, Certificate, kafka_broker_properties
from aioproducer.testing.kafka_cluster import DEFAULT_JVM_OPTIONS, KafkaCluster
from aioproducer.testing.oauth2_server import OAuth2Server
from tests.kafka.conftest import IDLE
from tests.kafka.logins import java_options, settings_of
from tests.support.http_server import Server, passed_on, serving

LISTENER: Final = "LOGIN"
"""The listener for clients with a user or a token."""
CERTIFICATES: Final = "TLS"
"""The listener for clients with a certificate."""
PASSWORD, TOKEN_URL = "AIOPRODUCER_TEST_PASSWORD", "AIOPRODUCER_TEST_TOKENS"
"""The variables of the executors."""
SECRETS: Final = {name: f"hunter2-{name}" for name in ("scram", "plain", "client", "wrong")}


@dataclass(frozen=True)
class Secured:
    """The cluster, and what its clients need."""

    cluster: KafkaCluster
    tokens: Server
    """A counter before a real token endpoint."""
    client: Certificate
    folder: Path

    def options(self, listener: str = LISTENER, **more: str) -> dict[str, str]:
        """Of a write, by Java's names with underscores."""
        return {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers_of(listener),
            "kafka.security.protocol": "SSL" if listener == CERTIFICATES else "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.folder / "authority.pem"),
            **{f"kafka.{name.replace('_', '.')}": value for name, value in more.items()},
        }


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """One broker, and a token endpoint."""
    authority = Authority()
    client = authority.issue("client")
    (folder / "authority.pem").write_text(authority.pem)
    (folder / "chain.pem").write_text(client.chain_pem)
    (folder / "key.pem").write_text(client.key_pem())
    (folder / "logins.properties").write_text(
        "".join(f"{name}={secret}\n" for name, secret in SECRETS.items())
    )
    with ExitStack() as stack:
        server = stack.enter_context(OAuth2Server())
        tokens = stack.enter_context(
            serving(lambda request, _: passed_on(request, server.token_url))
        )
        certificate = authority.issue("broker")
        config = {
            **kafka_broker_properties(certificate),
            **kafka_broker_properties(
                certificate, trusts=authority, client_auth="required", listener=CERTIFICATES
            ),
            **IDLE,
            **settings_of(
                LISTENER, plain={"alice": SECRETS["plain"]}, tokens=(server, server.issuer)
            ),
        }
        cluster = KafkaCluster(
            listeners={LISTENER: "SASL_SSL", CERTIFICATES: "SSL"},
            config=config,
            format_options=("--add-scram", f"SCRAM-SHA-256=[name=bob,password={SECRETS['scram']}]"),
            jvm_options=(*DEFAULT_JVM_OPTIONS, *java_options(None, server, server.issuer)),
        )
        yield Secured(stack.enter_context(cluster), tokens, client, folder)


def token() -> tuple[str, float]:
    """A provider that executors import: a token for themselves, from the counted endpoint."""
    body = f"grant_type=client_credentials&client_id=them&client_secret={SECRETS['client']}"
    request = urllib.request.Request(os.environ[TOKEN_URL], body.encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        said = json.load(answer)
    return said["access_token"], time.time() + said["expires_in"]
