"""What the constructor of a Consumer takes and refuses, also from a Java consumer's properties."""

from __future__ import annotations

import asyncio
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.consumer import Consumer
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.errors import BootstrapError, ConfigError, IllegalStateError, InvalidTopicError
from tests.support.inside import all_tasks

SERVERS = "127.0.0.1:1"


def made(*topics: Any, **options: Any) -> Consumer:
    return Consumer(*topics, **{"group_id": "billing", "bootstrap_servers": SERVERS, **options})


@pytest.mark.parametrize(
    ("topics", "error", "says"),
    [
        ((), ConfigError, "name at least one topic"),
        ((["orders"],), ConfigError, "one by one, not a list: Consumer('orders', 'payments'"),
        (("orders", "a:9092"), InvalidTopicError, "not 'a:9092'; name brokers by bootstrap_serv"),
        ((None,), InvalidTopicError, "None"),
        (("",), InvalidTopicError, "''"),
        (("  ",), InvalidTopicError, "'  '"),
        ((re.compile(b"orders"),), ConfigError, "is one of str"),
    ],
)
def test_a_subscription_has_topics_with_names(
    topics: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=re.escape(says)):
        made(*topics)


def test_a_subscription_before_the_start_replaces_the_topics() -> None:
    consumer = made("orders")
    consumer.subscribe("bills", re.compile("refunds-.*"))
    assert repr(consumer._setup.subscription) == "bills, refunds-.*"
    with pytest.raises(ConfigError, match=re.escape("topic: consumer.subscribe('orders', ...)")):
        consumer.subscribe()
    with pytest.raises(ConfigError, match=re.escape("not a list: consumer.subscribe('orders', '")):
        consumer.subscribe(["orders"])  # type: ignore[arg-type]
    assert repr(consumer._setup.subscription) == "bills, refunds-.*"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("seek_to_beginning", "use `await consumer.seek(partition, 'beginning')`"),
        ("seek_to_committed", "use `await consumer.seek(partition, 'committed')`"),
        ("unsubscribe", "use `await consumer.close()`, or `subscribe()` to other topics"),
        ("assign", "use aioproducer.Reader, which needs no group"),
    ],
)
def test_a_method_of_other_consumers_names_ours(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"Consumer has no {name}(): {says}")):
        getattr(made("orders"), name)


@pytest.mark.parametrize("group_id", ["", "  ", None, 7])
def test_a_group_has_a_name(group_id: Any) -> None:
    with pytest.raises(ConfigError, match="group_id is the name of the group"):
        made("orders", group_id=group_id)


def test_without_a_group_a_reader_reads() -> None:
    with pytest.raises(ConfigError, match=r"Without a group, read with .*Reader\('orders'\)"):
        Consumer("orders", bootstrap_servers=SERVERS)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"session_timeout_ms": 30},
            "heartbeat_interval_ms=3000 must be at most a third of session_timeout_ms=30",
        ),
        ({"auto_offset_resett": "latest"}, "did you mean 'auto_offset_reset'?"),
        ({"value_deserialiser": bytes}, "did you mean 'value_deserializer'?"),
        ({"on_asigned": print}, "did you mean 'on_assigned'?"),
        ({"session_timeout": 1_000}, "did you mean 'session_timeout_ms'?"),
        ({"client_idd": "a"}, "did you mean 'client_id'?"),
        (
            {"on_deserialization_error": print},
            "no effect without a key_deserializer or a value_des",
        ),
        ({"session_timeout_ms": 0}, "session_timeout_ms=0"),
        (
            {"fetch_max_wait_ms": 1_000, "request_timeout_ms": 1_000},
            "fetch_max_wait_ms=1000 has to be less than request_timeout_ms=1000",
        ),
        ({"max_poll_interval_ms": "5 min"}, "max_poll_interval_ms='5 min'"),
        ({"partition_assignment_strategy": "alphabetical"}, "'cooperative-sticky'"),
        ({"partition_assignment_strategy": None}, "'cooperative-sticky'"),
        (
            {"group_protocol": "consumer", "partition_assignment_strategy": "range"},
            "partition_assignment_strategy has no effect with group_protocol='consumer': use group",
        ),
        (
            {"group_protocol": "classic", "group_remote_assignor": "uniform"},
            "group_remote_assignor has no effect with group_protocol='classic': use partition_",
        ),
        (
            {"group_remote_assignor": "uniform", "heartbeat_interval_ms": 1_000},
            "heartbeat_interval_ms belongs to group_protocol='classic', and group_remote_assignor "
            "to group_protocol='consumer': leave one of them out",
        ),
        ({"group_protocol": "share"}, "'classic' or 'consumer'"),
        ({"group_instance_id": ""}, "group_instance_id"),
        ({"isolation_level": "committed"}, "isolation_level='committed'"),
        ({"auto_offset_reset": "smallest"}, "auto_offset_reset='smallest'"),
        ({"sesion_timeout_ms": 1}, "sesion_timeout_ms"),
        ({"enable_auto_commit": False}, "Consumer() has no option 'enable_auto_commit': use auto_"),
        ({"max_poll_records": 10}, "lists(max_records=...) has the number"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        made("orders", **options)


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({}, None),
        ({"group_protocol": None, "session_timeout_ms": 9_000}, "classic"),
        ({"session_timeout_ms": 45_000}, "classic"),
        ({"heartbeat_interval_ms": 3_000}, "classic"),
        ({"partition_assignment_strategy": "range"}, "classic"),
        ({"group_remote_assignor": "uniform"}, "consumer"),
        ({"group_remote_assignor": None}, None),
        ({"group_protocol": "consumer", "session_timeout_ms": 6_000}, "consumer"),
    ],
)
def test_an_option_of_one_protocol_decides_on_it(
    options: dict[str, Any], protocol: str | None
) -> None:
    assert made("orders", **options)._options.group_protocol == protocol


def test_brokers_decide_on_the_heartbeats_of_a_newer_group() -> None:
    consumer = made("orders", group_protocol="consumer", session_timeout_ms=6_000)
    assert consumer._options.session_timeout_ms == 6_000


def test_each_consumer_has_a_client_id() -> None:
    one, two = made("orders"), made("orders")
    assert re.fullmatch(r"consumer-\d+", one.client_id)
    assert one.client_id != two.client_id
    assert made("orders", client_id="shop").client_id == "shop"
    config = ProducerConfig(bootstrap_servers=SERVERS, client_id="shop")
    assert Consumer("orders", group_id="billing", config=config).client_id == "shop"


async def test_nothing_reads_before_the_start() -> None:
    consumer = made("orders")
    with pytest.raises(IllegalStateError):
        aiter(consumer)
    with pytest.raises(IllegalStateError):
        consumer.positions  # noqa: B018
    await consumer.close()


async def test_a_start_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections for fetches are open already, and those to the coordinator fail."""

    async def start(_: CoordinatorLink) -> None:
        raise BootstrapError("no name could be resolved")

    consumer = made("orders")
    monkeypatch.setattr(CoordinatorLink, "start", start)
    with pytest.raises(BootstrapError):
        await consumer.start()
    assert consumer._client.has_ended
    assert all_tasks() == {asyncio.current_task()}
    with pytest.raises(IllegalStateError, match="can be started once"):
        await consumer.start()
    await consumer.close()


PACKAGE = "org.apache.kafka.clients.consumer."
PROVIDERS = "org.apache.kafka.common.config.provider."
PROPERTIES = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "auto.commit.interval.ms": "5000",
    "isolation.level": "read_committed",
    "fetch.min.bytes": "100",
    "max.poll.interval.ms": "60000",
    "session.timeout.ms": "30000",
    "heartbeat.interval.ms": "2000",
    "group.instance.id": "one",
    "client.rack": "north",
    "default.api.timeout.ms": "7000",
    "partition.assignment.strategy": f"{PACKAGE}CooperativeStickyAssignor",
}


def made_of_properties(more: dict[str, Any] | None = None, **overrides: Any) -> Consumer:
    return Consumer.from_properties({**PROPERTIES, **(more or {})}, "orders", **overrides)


def test_each_property_has_its_option(caplog: pytest.LogCaptureFixture) -> None:
    consumer = made_of_properties()
    assert consumer.group_id == "billing"
    options, reading = consumer._options, consumer._reading
    assert options.auto_commit is False
    assert options.auto_commit_interval_ms == 5_000
    assert options.max_poll_interval_ms == 60_000
    assert (options.session_timeout_ms, options.heartbeat_interval_ms) == (30_000, 2_000)
    assert options.group_instance_id == "one"
    assert options.partition_assignment_strategy == "cooperative-sticky"
    assert (reading.auto_offset_reset, reading.isolation_level) == ("earliest", "read_committed")
    assert reading.fetch_min_bytes == 100
    assert consumer.config.client_rack == "north"
    assert consumer.config.max_block_ms == 7_000
    assert not caplog.records


def test_a_file_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("bootstrap.servers=a:1\ngroup.id=file\nsession.timeout.ms=no number\n")
    consumer = Consumer.from_properties(
        path, "orders", "bills", group_id="mine", session_timeout_ms=9_000, client_id="shop"
    )
    assert (consumer.group_id, consumer.client_id) == ("mine", "shop")
    assert consumer._options.session_timeout_ms == 9_000
    assert consumer._reading.auto_offset_reset == "latest", "a group's default"
    assert repr(consumer._setup.subscription) == "orders, bills"


def test_placeholders_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP", "from-env")
    providers = {
        "config.providers": "env",
        "config.providers.env.class": f"{PROVIDERS}EnvVarConfigProvider",
        "group.id": "${env:GROUP}",
    }
    assert made_of_properties(providers).group_id == "from-env"


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        (f"{PACKAGE}RangeAssignor", "range"),
        (f"{PACKAGE}RoundRobinAssignor", "roundrobin"),
        (f"{PACKAGE}StickyAssignor", "sticky"),
        ("sticky", "sticky"),
        ([f"{PACKAGE}StickyAssignor"], "sticky"),
    ],
)
def test_assignors_are_named_by_their_classes(given: Any, strategy: str) -> None:
    options = made_of_properties({"partition.assignment.strategy": given})._options
    assert options.partition_assignment_strategy == strategy


def test_several_assignors_are_in_the_order_of_preference() -> None:
    classes = f"{PACKAGE}RangeAssignor, {PACKAGE}CooperativeStickyAssignor"
    consumer = made_of_properties({"partition.assignment.strategy": classes})
    assert consumer._options.assignors == ("range", "cooperative-sticky")
    for given in (["range", "Sticky", "range"], ("range", "sticky")):
        strategies = made("orders", partition_assignment_strategy=given)._options.assignors
        assert strategies == ("range", "sticky")
    assert made("orders", partition_assignment_strategy=["sticky"])._options.assignors == (
        "sticky",
    )
    for wrong in ([], ["range", "mine"], [["range"]]):
        with pytest.raises(ConfigError, match="or 'cooperative-sticky', or a list of them"):
            made("orders", partition_assignment_strategy=wrong)


def test_what_has_no_effect_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    made_of_properties({"max.poll.records": "10", "value.deserializer": "x", "acks": "all"})
    [line] = caplog.messages
    assert line.startswith("properties without effect: acks (the option is one of producers); max.")
    assert "value.deserializer (pass value_deserializer as a keyword)" in line


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"group.idd": "x"}, "unknown option 'group.idd'; did you mean 'group.id'?"),
        ({"auto_offset_reset": "latest"}, "did you mean 'auto.offset.reset'?"),
        ({"fetch.min.byte": "1"}, "did you mean 'fetch.min.bytes'?"),
        ({"bootstrap.server": "x"}, "did you mean 'bootstrap.servers'?"),
        ({"auto.offset.reset": "smallest"}, "auto.offset.reset='smallest' (type str): expected"),
        ({"enable.auto.commit": "yes"}, "enable.auto.commit='yes'"),
        ({"session.timeout.ms": "soon"}, "session.timeout.ms='soon'"),
        ({"group.id": ""}, "group.id=''"),
        ({"partition.assignment.strategy": "com.shop.Mine"}, "class names of RangeAssignor"),
        ({"partition.assignment.strategy": ""}, "class names of RangeAssignor"),
        ({"ssl.ca.location": "x"}, "another client's option"),
    ],
)
def test_wrong_properties_are_named(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        made_of_properties(more)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"acks": "all"}, "acks: Consumer() has no such option, a Producer has; leave it out"),
        ({"sesion_timeout_ms": 1}, "sesion_timeout_ms"),
        ({"session_timeout_ms": "1"}, "session_timeout_ms='1'"),
    ],
)
def test_wrong_overrides_are_named(overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        made_of_properties(**overrides)


def test_a_group_is_needed() -> None:
    with pytest.raises(ConfigError, match=re.escape("from_properties(…, group_id='billing')")):
        Consumer.from_properties({"bootstrap.servers": "a:1"}, "orders")


def test_no_frame_shows_a_password() -> None:
    secret = "very-secret"
    wrong = {"sasl.jaas.config": f"x password={secret};", "ssl.key.password": secret, "x.y": secret}
    with pytest.raises(ConfigError) as caught:
        Consumer.from_properties({**PROPERTIES, **wrong}, "orders", sasl_password=secret)
    shown = "".join(
        traceback.TracebackException(
            type(caught.value), caught.value, caught.tb.tb_next, capture_locals=True
        ).format()
    )
    assert secret not in shown
