"""One broker with every kind of secured listener, for all tests here: it starts once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from aioproducer.auth.passwords import Scram
from aioproducer.foundation.secret import Secret
from aioproducer.testing.certificates import Authority
from aioproducer.testing.kafka_cluster import DEFAULT_JVM_OPTIONS, KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution, KafkaUnavailableError
from aioproducer.testing.kerberos import KerberosRealm, KerberosUnavailableError
from aioproducer.testing.oauth2_server import OAuth2Server
from tests.kafka.conftest import IDLE, keep_logs, say_that_there_is_no_kafka
from tests.kafka.logins import java_options
from tests.kafka.sasl_wire import log_in
from tests.kafka.secured.secured_kafka import (
    ISSUER,
    LET_IN,
    SHORT_ISSUER,
    TOKEN_SECONDS,
    SecuredKafka,
    broker_settings,
    listeners,
)


@pytest.fixture(scope="session")
def oauth2_server() -> Iterator[OAuth2Server]:
    try:
        server = OAuth2Server(ISSUER, token_seconds=TOKEN_SECONDS, others={SHORT_ISSUER: 10})
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error)
    with server:
        yield server


@pytest.fixture(scope="session")
def realm() -> Iterator[KerberosRealm | None]:
    """None where the machine lacks a KDC: the other mechanisms are seen all the same."""
    with ExitStack() as stack:
        try:
            realm = stack.enter_context(KerberosRealm())
        except KerberosUnavailableError:
            yield None
        else:
            yield realm


@pytest.fixture(scope="session")
def world(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    kafka_distribution: KafkaDistribution,
    realm: KerberosRealm | None,
    oauth2_server: OAuth2Server,
) -> Iterator[SecuredKafka]:
    """Make topics, users and principals of your own."""
    authority = Authority()
    failed_before = request.session.testsfailed
    with KafkaCluster(
        listeners=listeners(),
        config=broker_settings(authority, realm, oauth2_server) | IDLE,
        format_options=("--add-scram", "SCRAM-SHA-512=[name=bob,password=bob-secret]"),
        jvm_options=(
            *DEFAULT_JVM_OPTIONS,
            *java_options(realm, oauth2_server, ISSUER, SHORT_ISSUER),
        ),
    ) as cluster:
        world = SecuredKafka(
            cluster, authority, oauth2_server, realm, tmp_path_factory.mktemp("certificates")
        )
        world.add_users()
        wait_until_let_in(world)
        yield world
        if request.session.testsfailed > failed_before:
            keep_logs(request.config, cluster)


def wait_until_let_in(world: SecuredKafka) -> None:
    last = Scram("SCRAM-SHA-512", world.last_user, Secret(world.passwords[world.last_user]))
    deadline = time.monotonic() + 30
    while log_in(world.cluster.bootstrap_servers_of("CLEAR"), last) != LET_IN:
        assert time.monotonic() < deadline


@pytest.fixture
def authority(world: SecuredKafka) -> Authority:
    return world.authority


@pytest.fixture
def cluster(world: SecuredKafka) -> KafkaCluster:
    return world.cluster
