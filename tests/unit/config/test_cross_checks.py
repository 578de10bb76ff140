from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "a:1", **options})


@pytest.mark.parametrize(
    ("options", "effective"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"acks": "all"}, True),
        ({"retries": 0}, False),
        ({"enable_idempotence": True, "acks": -1}, True),
        ({"enable_idempotence": False, "acks": "all"}, False),
        ({"enable_idempotence": False, "max_in_flight_requests_per_connection": 6}, False),
        ({"acks": 1, "max_in_flight_requests_per_connection": 5}, False),
    ],
)
def test_effective_idempotence(options: dict[str, Any], effective: bool) -> None:
    assert config(**options).enable_idempotence is effective


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"enable_idempotence": True, "acks": 1}, "needs acks='all', not '1';"),
        ({"enable_idempotence": True, "retries": 0}, "needs retries above 0, not 0;"),
        (
            {"enable_idempotence": True, "acks": 0, "retries": 0},
            "needs acks='all', not '0' and retries above 0, not 0;",
        ),
        (
            {"max_in_flight_requests_per_connection": 6},
            "needs max_in_flight_requests_per_connection of at most 5, not 6;",
        ),
        ({"max_in_flight_requests_per_connection": 6, "acks": 1}, "of at most 5, not 6;"),
        (
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
            "of at most 5, not 6;",
        ),
    ],
)
def test_idempotence_conflicts(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**options)
    assert reason in str(caught.value)
    assert "or set enable_idempotence=False" in str(caught.value)


def test_disabled_idempotence_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aioproducer.config"):
        config(acks=1, retries=0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "idempotence is disabled: it needs acks='all', not '1' and retries above 0, not 0"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"delivery_timeout_ms": 30005},
        {"delivery_timeout_ms": 30000, "linger_ms": 0},
        {"delivery_timeout_ms": 30100, "linger_ms": 100},
        {"delivery_timeout_ms": 5, "request_timeout_ms": 0},
        {"delivery_timeout_ms": 2**31 - 1, "linger_ms": 2**40},
    ],
)
def test_delivery_timeout_that_suffices(options: dict[str, Any]) -> None:
    assert config(**options).delivery_timeout_ms == options["delivery_timeout_ms"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delivery_timeout_ms": 30004}, r"linger_ms \(adaptive: 5\) .* \(30000\) = 30005"),
        ({"delivery_timeout_ms": 30099, "linger_ms": 100}, r"linger_ms \(100\) .* = 30100"),
        ({"delivery_timeout_ms": 120000, "request_timeout_ms": 120000}, "= 120005"),
    ],
)
def test_delivery_timeout_too_short(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^delivery_timeout_ms=.* must be at least .*{reason}"):
        config(**options)


def test_default_delivery_timeout_grows(caplog: pytest.LogCaptureFixture) -> None:
    assert config(request_timeout_ms=200000, linger_ms=7).delivery_timeout_ms == 200007
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "delivery_timeout_ms is set to 200007" in caplog.text


@pytest.mark.parametrize(
    ("options", "maximum", "warning"),
    [
        ({}, 1000, None),
        ({"reconnect_backoff_ms": 2000}, 2000, "stays at 2000 ms"),
        ({"reconnect_backoff_ms": 10}, 10, "stays at 10 ms"),
        ({"reconnect_backoff_max_ms": 100}, 100, None),
        (
            {"reconnect_backoff_ms": 200, "reconnect_backoff_max_ms": 100},
            100,
            "reconnect_backoff_ms=200 is above reconnect_backoff_max_ms=100",
        ),
    ],
)
def test_reconnect_backoff(
    options: dict[str, Any],
    maximum: int,
    warning: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert config(**options).reconnect_backoff_max_ms == maximum
    assert len(caplog.records) == (warning is not None)
    assert warning is None or warning in caplog.text


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"retry_backoff_ms": 2000}, "retry_backoff_ms=2000 is above retry_backoff_max_ms=1000"),
        ({"socket_connection_setup_timeout_ms": 40000}, "is above .*_max_ms=30000"),
        (
            {"partitioner": "murmur3", "partitioner_ignore_keys": True},
            "partitioner_ignore_keys has",
        ),
        (
            {"partitioner": "murmur3", "partitioner_availability_timeout_ms": 1},
            "partitioner_availability_timeout_ms has no effect: a partitioner is set",
        ),
        (
            {"partitioner": "murmur3", "partitioner_rack_aware": True, "client_rack": "a"},
            "partitioner_rack_aware has no effect: a partitioner is set",
        ),
        (
            {"partitioner_rack_aware": True},
            "partitioner_rack_aware has no effect: client_rack is not set",
        ),
    ],
)
def test_warnings(options: dict[str, Any], warning: str, caplog: pytest.LogCaptureFixture) -> None:
    made = config(**options)
    assert {name: getattr(made, name) for name in options} == options
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert re.search(warning, record.getMessage())


def test_batch_must_fit_into_three_quarters_of_the_memory() -> None:
    assert config(batch_size=75, buffer_memory=100).batch_size == 75
    with pytest.raises(ConfigError, match=r"batch_size=76 .* buffer_memory=100 \(75 bytes"):
        config(batch_size=76, buffer_memory=100)
    with pytest.raises(ConfigError, match="lower batch_size or raise buffer_memory"):
        config(batch_size=16384, buffer_memory=16384)
    assert config(buffer_memory=100).batch_size is None, (
        "a batch that adapts is as small as need be"
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"enable_idempotence": False}, "transactional_id needs enable_idempotence=True"),
        ({"acks": 1}, "transactional_id needs acks='all', not '1': change that"),
        ({"retries": 0}, "transactional_id needs retries above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "transactional_id needs .* at most 5"),
    ],
)
def test_transactions_need_idempotence(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        config(transactional_id="t", **options)
    assert config(transactional_id="t").enable_idempotence


def test_a_contradiction_does_not_hide_a_malformed_one() -> None:
    with pytest.raises(ConfigError, match="security_protocol='TLS'"):
        config(security_protocol="TLS", transactional_id="t")
