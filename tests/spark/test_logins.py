"""Writes to a cluster that asks for TLS, passwords and tokens: rows arrive, secrets don't show."""

from __future__ import annotations

import re
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from aioproducer import Producer
from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError, ProducerError
from aioproducer.spark import publish_dataframe, publish_partitions, register
from aioproducer.testing.kafka_distribution import KafkaDistribution, KafkaUnavailableError
from tests.kafka.conftest import say_that_there_is_no_kafka
from tests.kafka.transactional import committed
from tests.spark.secured import CERTIFICATES, PASSWORD, SECRETS, TOKEN_URL, Secured, secured
from tests.spark.sink import numbers, numbers_in_files

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Write = Callable[[DataFrame, dict[str, str]], object]
REFUSED = "SCRAM-SHA-256 login refused: SASL_AUTHENTICATION_FAILED"
LONG = {"kafka.max.block.ms": "900000", "kafka.delivery.timeout.ms": "900000"}
"""A test whose login is tried until then does not end in time."""


@pytest.fixture(scope="module")
def there(
    kafka_distribution: KafkaDistribution, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    try:
        with secured(tmp_path_factory.mktemp("secured")) as made:
            yield made
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error)


@pytest.fixture
def session(spark: SparkSession, there: Secured) -> Iterator[SparkSession]:
    """Its executors have variables that this process has not, as by ``spark.executorEnv``."""
    environment = spark.sparkContext.environment
    environment.update({PASSWORD: SECRETS["scram"], TOKEN_URL: there.tokens.token_url})
    session = spark.newSession()
    register(session)
    yield session
    for name in (PASSWORD, TOKEN_URL):
        del environment[name]


def shows_options(session: SparkSession) -> bool:
    """True if the plan of a stream has the options of its write: before Spark 4.3."""
    major, minor, *_ = session.version.split(".")
    return (int(major), int(minor)) < (4, 3)


@pytest.fixture
async def topic(there: Secured) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await there.cluster.create_topic(name, 4)
    return name


def with_password(there: Secured, **more: str) -> dict[str, str]:
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "bob"}
    return there.options(**{**login, "sasl_password": f"${{env:{PASSWORD}}}", **more})


def with_token(there: Secured, **more: str) -> dict[str, str]:
    return there.options(sasl_mechanism="OAUTHBEARER", **more)


def with_client_secret(there: Secured) -> dict[str, str]:
    return with_token(
        there,
        sasl_oauthbearer_token_endpoint_url=there.tokens.token_url,
        sasl_oauthbearer_client_credentials_client_id="me",
        sasl_oauthbearer_client_credentials_client_secret=(
            f"${{file:{there.folder / 'logins.properties'}:client}}"
        ),
    )


def with_provider(there: Secured) -> dict[str, str]:
    return with_token(there, sasl_oauthbearer_token_provider="tests.spark.secured:token")


def with_jaas(there: Secured) -> dict[str, str]:
    secret = f"${{file:{there.folder / 'logins.properties'}:plain}}"
    line = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return there.options(
        sasl_mechanism="PLAIN", sasl_jaas_config=f'{line} username="alice" password="{secret}";'
    )


def with_certificate(there: Secured) -> dict[str, str]:
    return there.options(
        CERTIFICATES,
        ssl_keystore_type="PEM",
        ssl_keystore_key=f"${{dir:{there.folder}:key.pem}}",
        ssl_keystore_certificate_chain=f"${{dir:{there.folder}:chain.pem}}",
    )


LOGINS = [with_password, with_jaas, with_certificate, with_client_secret, with_provider]


def by_format(df: DataFrame, options: dict[str, str]) -> None:
    df.write.format("aioproducer").options(**options).mode("append").save()


def by_publish_partitions(df: DataFrame, options: dict[str, str]) -> None:
    publish_partitions(df, **options)


def exactly_once(topic: str) -> dict[str, str]:
    return {"delivery.guarantee": "exactly_once", "sink.id": f"sink-of-{topic}"}


def no_secret_in(text: str, there: Secured) -> None:
    assert len(text) > 10
    key = re.findall(r"^[A-Za-z0-9+/=]{30,}$", there.client.key_pem(), re.MULTILINE)
    for secret in ("hunter2", *key):
        assert secret not in text


def noted(session: SparkSession, event_log: Path) -> str:
    """What Spark has written for its history server."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return "".join(file.read_text() for file in event_log.rglob("*") if file.is_file())


@pytest.mark.parametrize("login", LOGINS)
async def test_references_reach_the_executors(
    login: Callable[[Secured], dict[str, str]],
    session: SparkSession,
    there: Secured,
    topic: str,
    event_log: Path,
) -> None:
    write = by_publish_partitions if login is with_jaas else by_format
    write(numbers(session, 30), {**login(there), "topic": topic})
    assert await committed(there.cluster, topic) == sorted(b"%d" % n for n in range(30))
    no_secret_in(noted(session, event_log), there)


async def test_a_token_is_fetched_once_for_each_process(
    session: SparkSession, there: Secured, topic: str
) -> None:
    options = {**with_client_secret(there), "topic": topic}
    options["kafka.sasl.oauthbearer.scope"] = topic  # another login than that of other tests
    there.tokens.requests.clear()
    for number in range(3):  # a client id of its own makes a producer of its own
        by_format(numbers(session, 16, tasks=8), {**options, "kafka.client.id": f"c-{number}"})
    assert len(await committed(there.cluster, topic)) == 48
    fetched = len(there.tokens.requests)
    assert 1 <= fetched <= 2, "Spark runs two tasks at a time, in two processes"


async def test_a_stream_is_written_exactly_once_and_shows_no_secret(
    session: SparkSession,
    there: Secured,
    topic: str,
    tmp_path: Path,
    event_log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PASSWORD, SECRETS["scram"])
    rows = numbers_in_files(session, tmp_path / "rows", 2)
    options = {**with_password(there), **exactly_once(topic), "topic": topic}
    writer = rows.writeStream.format("aioproducer").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert await committed(there.cluster, topic) == sorted(b"%d" % n for n in range(100))
    told = [
        query._jsq.explainInternal(True),
        *(progress.json for progress in query.recentProgress),
        noted(session, event_log),
    ]
    no_secret_in("\n".join(told), there)
    assert (str(there.folder / "authority.pem") in told[0]) is shows_options(session)


async def test_exactly_once_with_a_token_from_executors_and_driver(
    session: SparkSession, there: Secured, topic: str
) -> None:
    options = {**with_client_secret(there), **exactly_once(topic), "topic": topic}
    report = publish_partitions(numbers(session, 30), **options)
    assert report.records == 30
    assert len(await committed(there.cluster, topic)) == 30


async def test_publish_dataframe_with_the_drivers_own_login(
    session: SparkSession, there: Secured, topic: str
) -> None:
    options = {
        name.removeprefix("kafka."): value
        for name, value in with_password(there, sasl_password=SECRETS["scram"]).items()
    }
    async with Producer(ProducerConfig.from_properties(options)) as producer:
        report = await publish_dataframe(numbers(session, 30), producer, topic)
    assert report.records == 30
    assert len(await committed(there.cluster, topic)) == 30


# --- what is wrong --------------------------------------------------------------------------------


def wrong(there: Secured) -> dict[str, str]:
    secret = f"${{file:{there.folder / 'logins.properties'}:wrong}}"
    return {**with_password(there, sasl_password=secret), **LONG}


@pytest.mark.parametrize("write", [by_format, by_publish_partitions])
@pytest.mark.parametrize("options", [dict, exactly_once])
def test_a_wrong_password_is_the_brokers_refusal(
    write: Write,
    options: Callable[..., dict[str, str]],
    session: SparkSession,
    there: Secured,
    topic: str,
    event_log: Path,
) -> None:
    more = options(topic) if options is exactly_once else {}
    with pytest.raises((PySparkException, ProducerError)) as caught:
        write(numbers(session, 30), {**wrong(there), **more, "topic": topic})
    told = "".join(traceback.format_exception(caught.value))
    assert REFUSED in told
    no_secret_in(told + noted(session, event_log), there)


def test_a_stream_with_a_wrong_password_ends(
    session: SparkSession, there: Secured, topic: str, tmp_path: Path, event_log: Path
) -> None:
    rows = numbers_in_files(session, tmp_path / "rows", 1)
    writer = rows.writeStream.format("aioproducer").options(**wrong(there), topic=topic)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=REFUSED) as caught:
        query.awaitTermination(120)
    no_secret_in(str(caught.value) + str(query.exception()) + noted(session, event_log), there)


@pytest.mark.parametrize("write", [by_format, by_publish_partitions])
def test_a_plain_secret_is_refused_where_spark_would_show_it(
    write: Write, session: SparkSession, there: Secured, topic: str
) -> None:
    """Spark's own redaction does not know the option; it knows ``sasl.password``."""
    key = there.client.key_pem()
    options = {**with_certificate(there), "kafka.ssl.keystore.key": key, "topic": topic}
    with pytest.raises((PySparkException, ConfigError)) as caught:
        write(numbers(session, 1), options)
    told = "".join(traceback.format_exception(caught.value))
    assert "kafka.ssl.keystore.key contains a secret, which Spark shows" in told
    assert "use a reference: '${env:NAME}'" in told
    no_secret_in(told, there)


async def test_a_plain_secret_that_spark_redacts_shows_nowhere(
    session: SparkSession, there: Secured, topic: str, tmp_path: Path, event_log: Path
) -> None:
    rows = numbers_in_files(session, tmp_path / "rows", 1)
    options = {**with_password(there, sasl_password=SECRETS["scram"]), "topic": topic}
    writer = rows.writeStream.format("aioproducer").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert len(await committed(there.cluster, topic)) == 50
    by_format(numbers(session, 30), options)
    by_publish_partitions(numbers(session, 30), options)
    plan = query._jsq.explainInternal(True)
    assert ("kafka.sasl.password=*********(redacted)" in plan) is shows_options(session)
    told = [plan, *(each.json for each in query.recentProgress), noted(session, event_log)]
    no_secret_in("\n".join(told), there)
