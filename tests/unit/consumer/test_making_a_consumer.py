"""What the constructor of a Consumer takes and refuses; it connects to nothing."""

from __future__ import annotations

import asyncio
import re
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


@pytest.mark.parametrize("group_id", ["", "  ", None, 7])
def test_a_group_has_a_name(group_id: Any) -> None:
    with pytest.raises(ConfigError, match="group_id is the name of the group"):
        made("orders", group_id=group_id)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"heartbeat_interval_ms": 20_000}, "a third of session_timeout_ms at most"),
        ({"session_timeout_ms": 0}, "session_timeout_ms=0"),
        ({"max_poll_interval_ms": "5 min"}, "max_poll_interval_ms='5 min'"),
        ({"partition_assignment_strategy": "alphabetical"}, "'cooperative-sticky'"),
        ({"partition_assignment_strategy": None}, "'cooperative-sticky'"),
        ({"group_protocol": "share"}, "'classic' or 'consumer'"),
        ({"group_instance_id": ""}, "group_instance_id"),
        ({"isolation_level": "committed"}, "isolation_level='committed'"),
        ({"auto_offset_reset": "smallest"}, "auto_offset_reset='smallest'"),
        ({"sesion_timeout_ms": 1}, "sesion_timeout_ms"),
        ({"enable_auto_commit": False}, "Consumer() has no option 'enable_auto_commit': use auto_"),
        ({"value_deserializer": bytes.decode}, "decode them in your loop or handler"),
        ({"max_poll_records": 10}, "lists(max_records=...) has the number"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        made("orders", **options)


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
