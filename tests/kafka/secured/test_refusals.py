"""Users, logins and tokens that a broker refuses: in its words, at once, and calmly."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from aioproducer import Producer
from aioproducer.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BootstrapError,
    FatalTransactionError,
    GroupAuthorizationFailedError,
    KafkaError,
    MissingExtraError,
    SaslAuthenticationFailedError,
    TokenError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from aioproducer.model import TopicPartition
from tests.kafka.secured.relay import Relay, gate_before
from tests.kafka.secured.secured_kafka import (
    PASSWORD,
    PLAIN_USERS,
    SecuredKafka,
    Stopwatch,
    failures_of,
)
from tests.kafka.transactional import offset_of

pytestmark = pytest.mark.kafka


AT_ONCE = 20.0
"""Seconds; far from the minute that there is."""
Options = Callable[[SecuredKafka], dict[str, Any]]
Failed = SaslAuthenticationFailedError


def with_token(world: SecuredKafka, token: str) -> dict[str, Any]:
    return world.login("OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: token)


def expired(world: SecuredKafka) -> dict[str, Any]:
    async def provider() -> tuple[str, float]:
        return "header.claims.signature", 1.0

    return world.login("OAUTHBEARER", sasl_oauthbearer_token_provider=provider)


REFUSED: dict[str, tuple[Options, type[AuthenticationError], str]] = {
    "PLAIN, wrong password": (
        lambda world: world.login("PLAIN", "alice", "guessed"),
        Failed,
        "Invalid username or password",
    ),
    "PLAIN, unknown user": (
        lambda world: world.login("PLAIN", "nobody", "guessed"),
        Failed,
        "Invalid username or password",
    ),
    "SCRAM-SHA-256, wrong password": (
        lambda world: world.login("SCRAM-SHA-256", "alice", "guessed"),
        Failed,
        "SCRAM-SHA-256 login refused.*invalid credentials",
    ),
    "SCRAM-SHA-512, unknown user": (
        lambda world: world.login("SCRAM-SHA-512", "nobody", PASSWORD),
        Failed,
        "SCRAM-SHA-512 login refused.*invalid credentials",
    ),
    "a mechanism that is not offered": (
        lambda world: world.plain(listener="FEW"),
        UnsupportedSaslMechanismError,
        "PLAIN login refused.*this listener offers SCRAM-SHA-512; set sasl_mechanism",
    ),
    "a token of another issuer": (
        lambda world: world.oauth(issuer="foreign"),
        Failed,
        "OAUTHBEARER login refused.*invalid_token",
    ),
    "no token at all": (
        lambda world: with_token(world, "not-a-token"),
        Failed,
        "OAUTHBEARER login refused.*invalid_token",
    ),
    "a token that has expired": (expired, TokenError, "the provider's token expired .* s ago"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_refused_login_is_told_at_once(kind: str, world: SecuredKafka) -> None:
    options, kind_of_error, words = REFUSED[kind]
    configured = options(world)
    watch = Stopwatch()
    for error in await failures_of(configured, "orders"):
        assert type(error) is kind_of_error
        assert configured["bootstrap_servers"] in str(error)
        with pytest.raises(kind_of_error, match=words):
            raise error
    assert watch.seconds < AT_ONCE


async def test_an_extra_that_is_missing_is_told_at_once(
    world: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody notices before a token is fetched, which is in a login."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    watch = Stopwatch()
    for error in await failures_of(world.oauth("without httpx2"), "orders"):
        assert isinstance(error, MissingExtraError)
        assert "pip install 'aioproducer[oauth]'" in str(error)
    assert watch.seconds < AT_ONCE


async def test_transactions_of_a_refused_login_fail_at_once(world: SecuredKafka) -> None:
    watch = Stopwatch()
    options = world.login("PLAIN", "alice", "guessed", max_block_ms=60_000)
    with pytest.raises(Failed, match="Invalid username or password"):
        async with Producer(**options, transactional_id=uuid.uuid4().hex):
            pytest.fail("it was let in")
    assert watch.seconds < AT_ONCE


async def test_nobody_hammers_a_broker_that_refuses(world: SecuredKafka) -> None:
    """Records come all the while, and each of them fails."""
    kinds = [
        world.login("PLAIN", "alice", "guessed"),
        world.login("SCRAM-SHA-512", "alice", "guessed"),
        world.oauth(issuer="foreign", client="hammer"),
        world.plain(listener="FEW"),
        world.tls("EXPIRED"),
        world.tls("MTLS"),
    ]

    async def tried(options: dict[str, Any]) -> int:
        async with Relay(options["bootstrap_servers"]) as relay:
            options = {**options, "bootstrap_servers": relay.address}
            async with Producer(**options) as producer:
                watch = Stopwatch()
                while watch.seconds < 5 or relay.accepted < 2:
                    with pytest.raises(AuthenticationError):
                        await producer.send("orders", b"never")
                    await asyncio.sleep(0.05)
            return relay.accepted

    for count in await asyncio.gather(*map(tried, kinds)):
        assert count <= 5


async def test_a_user_who_comes_to_be_is_let_in(world: SecuredKafka) -> None:
    topic, name = await world.topic(), uuid.uuid4().hex
    async with Producer(**world.login("SCRAM-SHA-512", name, PASSWORD)) as producer:
        with pytest.raises(Failed):
            await producer.send(topic, b"refused")
        await asyncio.to_thread(world.add_user, name, PASSWORD)
        async with asyncio.timeout(60):
            while True:
                try:
                    await producer.send(topic, b"let in")
                    break
                except Failed:
                    await asyncio.sleep(0.05)
    assert await world.written(topic) == [b"let in"]


async def test_records_wait_for_a_token_endpoint_that_is_down(world: SecuredKafka) -> None:
    topic = await world.topic()
    with gate_before(world.tokens.token_url, shut=True) as gate:
        options = world.oauth(sasl_oauthbearer_token_endpoint_url=gate.url)
        async with Producer(**options) as producer:
            sent = producer.send(topic, b"patient")
            with pytest.raises(BootstrapError, match="503"):
                await producer.check(1.0)
            assert gate.refused.is_set()
            assert not sent.done()
            gate.shut.clear()
            await asyncio.wait_for(sent, 60)
    assert await world.written(topic) == [b"patient"]


async def test_thirty_producers_ask_for_one_token(world: SecuredKafka) -> None:
    topic = await world.topic()
    with gate_before(world.tokens.token_url) as gate:

        async def write(number: int) -> None:
            options = world.oauth(sasl_oauthbearer_token_endpoint_url=gate.url)
            async with Producer(**options) as producer:
                await producer.send(topic, b"%d" % number)

        await asyncio.gather(*map(write, range(30)))
        assert gate.asked == 1
    assert sorted(map(int, await world.written(topic))) == list(range(30))


async def test_other_users_go_on_beside_a_refused_one(world: SecuredKafka) -> None:
    topic = await world.topic()
    refused = Producer(**world.login("PLAIN", "alice", PLAIN_USERS["alice"] + "?"))
    async with refused, Producer(**world.plain()) as producer:
        with pytest.raises(Failed):
            await refused.send(topic, b"refused")
        await producer.send(topic, b"written")
    assert await world.written(topic) == [b"written"]


TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE


@pytest.mark.parametrize("operation", [WRITE, DESCRIBE])
async def test_a_topic_that_is_denied(operation: AclOperation, world: SecuredKafka) -> None:
    denied, free = await world.topic(), await world.topic()
    world.deny(TOPIC, denied, operation)
    watch = Stopwatch()
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TopicAuthorizationFailedError, match=denied):
            await producer.check(30, topics=[free, denied])
        assert (await producer.check(30, topics=[free])).topics[free].may_write
        refused, written = [], []
        for number in range(100):
            refused.append(producer.send(denied, b"%d" % number))
            written.append(producer.send(free, b"%d" % number))
        await asyncio.gather(*written)
        for error in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(error, TopicAuthorizationFailedError)
            assert denied in str(error)
        metrics = producer.metrics()
        assert metrics["producer-metrics"]["record-error-total"] == 100
    assert watch.seconds < AT_ONCE
    assert await world.written(free) == [b"%d" % number for number in range(100)]
    assert await world.written(denied) == []


async def test_a_transactional_id_that_is_denied(world: SecuredKafka) -> None:
    name = uuid.uuid4().hex
    world.deny(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    watch = Stopwatch()
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TransactionalIdAuthorizationFailedError, match=name):
            await producer.check(30, transactional_id=name)
    await assert_not_let_in(world, name)
    assert watch.seconds < AT_ONCE


async def test_a_transactional_id_that_may_be_described_alone(world: SecuredKafka) -> None:
    name = uuid.uuid4().hex
    world.deny(TRANSACTIONAL_ID, name, WRITE)
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TransactionalIdAuthorizationFailedError, match="needs the WRITE perm"):
            await producer.check(30, transactional_id=name)
    await assert_not_let_in(world, name)


async def test_a_check_fences_nobody(world: SecuredKafka) -> None:
    """It asks the coordinator for the permission while a transaction is open."""
    topic, name = await world.topic(), uuid.uuid4().hex
    async with (
        Producer(**world.plain(), transactional_id=name) as producer,
        producer.transaction(),
    ):
        await producer.send(topic, b"record")
        async with Producer(**world.plain()) as other:
            found = await other.check(30, transactional_id=name, group_id=name)
        assert found.coordinator is not None
    assert await world.written(topic) == [b"record"]


EVERYTHING = (
    "topic '{topic}': TOPIC_AUTHORIZATION_FAILED: the principal needs the {topics} for the topic; "
    "transactional id '{name}': TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the principal needs the "
    "{ids} for the transactional id; "
    "group '{name}': GROUP_AUTHORIZATION_FAILED: the principal needs the {groups} for the group"
)


@pytest.mark.parametrize("visible", [True, False])
async def test_a_check_names_all_missing_permissions_at_once(
    visible: bool, world: SecuredKafka
) -> None:
    topic, name = await world.topic(), uuid.uuid4().hex
    hidden = () if visible else (DESCRIBE,)
    world.deny(TOPIC, topic, READ, WRITE, *hidden)
    world.deny(TRANSACTIONAL_ID, name, WRITE, *hidden)
    world.deny(GROUP, name, READ, *hidden)
    async with Producer(**world.plain("limited")) as producer:
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            await producer.check(
                30, topics=[topic], transactional_id=name, group_id=name, consumed_topics=[topic]
            )
    also = "" if visible else "DESCRIBE and "
    several = "permission" if visible else "permissions"
    assert str(caught.value) == EVERYTHING.format(
        topic=topic,
        name=name,
        topics=f"{also}WRITE and READ permissions",
        ids=f"{also}WRITE {several}",
        groups=f"{also}READ {several}",
    )


DENIED = {
    "the group": (GROUP, READ, "needs the READ permission for the group"),
    "the topic of its offsets": (TOPIC, READ, "needs the READ permission for the topic"),
}


@pytest.mark.parametrize("denied", DENIED)
async def test_a_spark_sink_names_what_its_marker_needs(denied: str, world: SecuredKafka) -> None:
    """Its rows could be written, and only the commit is refused."""
    pytest.importorskip("pyspark")
    from aioproducer.spark.exactly_once import Batch, Begun, TaskOutcome, begin, commit
    from aioproducer.spark.plan import plan_write
    from aioproducer.spark.report import WriteReport

    topic, name = await world.topic(), uuid.uuid4().hex
    kind, operation, text = DENIED[denied]
    world.deny(kind, name if kind is GROUP else topic, operation)
    options = {
        f"kafka.{option.replace('_', '.')}": str(value)
        for option, value in world.plain("limited").items()
    }
    options |= {"topic": topic, "delivery.guarantee": "exactly_once", "sink.id": name}
    plan = plan_write(options, {"value": "binary"})

    def write() -> None:
        begun: Begun = begin(plan)
        commit(plan, [TaskOutcome(WriteReport(), begun, Batch(0, "query"))], 0)

    with pytest.raises(KafkaError, match=text):
        await asyncio.to_thread(write)


async def assert_not_let_in(world: SecuredKafka, name: str) -> None:
    with pytest.raises(
        FatalTransactionError, match=f"{name}.*(DESCRIBE|WRITE) permission"
    ) as caught:
        async with Producer(**world.plain("limited"), transactional_id=name):
            pytest.fail("it was let in")
    assert isinstance(caught.value.__cause__, TransactionalIdAuthorizationFailedError)


async def test_a_denied_topic_ends_its_transaction_alone(world: SecuredKafka) -> None:
    denied, free = await world.topic(), await world.topic()
    world.deny(TOPIC, denied, WRITE)
    options = world.plain("limited", transactional_id=uuid.uuid4().hex)
    async with Producer(**options) as producer:
        with pytest.raises(TopicAuthorizationFailedError, match=denied):
            await write(producer, free, denied)
        await write(producer, free)
    assert await world.written(free) == [b"record"]


async def write(producer: Producer, *topics: str) -> None:
    async with producer.transaction():
        for topic in topics:
            await producer.send(topic, b"record")


async def test_offsets_of_a_group_that_is_denied(world: SecuredKafka) -> None:
    topic, denied, free = await world.topic(), uuid.uuid4().hex, uuid.uuid4().hex
    world.deny(GROUP, denied, READ)
    options = world.plain("limited", transactional_id=uuid.uuid4().hex)
    async with Producer(**options) as producer:
        with pytest.raises(AbortableTransactionError, match=f"group '{denied}'.*READ") as caught:
            await write_and_commit(producer, topic, denied)
        assert isinstance(caught.value.__cause__, GroupAuthorizationFailedError)
        await write_and_commit(producer, topic, free)
    assert await world.written(topic) == [b"record"]
    assert await offset_of(world.cluster, free, topic) == 7


async def write_and_commit(producer: Producer, topic: str, group: str) -> None:
    async with producer.transaction():
        producer.send(topic, b"record")
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, group)
