"""The configuration of clients that are no producers."""

from __future__ import annotations

import pytest

from aioproducer import ProducerConfig
from aioproducer.config.options import OPTIONS
from aioproducer.engine.client.elsewhere import OF_PRODUCERS, client_config
from aioproducer.errors import ConfigError


def test_every_name_is_an_option() -> None:
    assert OPTIONS.keys() >= OF_PRODUCERS


def test_keywords_and_a_configuration() -> None:
    made = client_config(None, {"bootstrap_servers": "host:1", "client_id": "me"}, "Admin")
    assert made == ProducerConfig(bootstrap_servers="host:1", client_id="me")
    assert client_config(made, {}, "Admin") is made
    assert client_config(made, {"client_id": "you"}, "Admin").client_id == "you"


def test_the_options_of_producers_count_in_a_shared_configuration_alone() -> None:
    shared = ProducerConfig(bootstrap_servers="host:1", acks=1, linger_ms=7)
    assert client_config(shared, {}, "Admin") is shared
    with pytest.raises(ConfigError, match=r"^acks, linger_ms: Admin\(\) has no such option"):
        client_config(None, {"bootstrap_servers": "host:1", "linger_ms": 7, "acks": 1}, "Admin")
    with pytest.raises(ConfigError, match="linger_ms"):
        client_config(shared, {"linger_ms": 7}, "Admin")


@pytest.mark.parametrize("options", [{}, {"bootstrap_server": "host:1"}])
def test_what_a_producer_would_refuse(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        client_config(None, options, "Admin")


def test_a_mapping_is_no_configuration() -> None:
    with pytest.raises(ConfigError, match=r"Reader\(\) takes no dict.*from_properties"):
        client_config({"bootstrap.servers": "x"}, {}, "Reader")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("group_id", "only a member of a group has it, a Consumer"),
        ("enable_auto_commit", "only a member of a group has it, a Consumer"),
        ("max_poll_records", "only a member of a group has it, a Consumer"),
        ("value_deserializer", "leave it out"),
        ("check_crcs", "leave it out"),
    ],
)
def test_an_option_of_consumers_is_none_of_an_admin(option: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Admin\(\) has no option '{option}': {says}$"):
        client_config(None, {"bootstrap_servers": "kafka:9092", option: 1}, "Admin")
