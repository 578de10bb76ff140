"""The arguments of a consumer, and their checks. No I/O."""

from __future__ import annotations

from inspect import iscoroutine
from typing import Any

from aioproducer.config import ProducerOptions
from aioproducer.config.reader_options import ReaderKeywords
from aioproducer.consumer.options import ConsumerKeywords, ConsumerOptions
from aioproducer.consumer.workers import ORDERS
from aioproducer.errors import ConfigError


class ConsumerArguments(ProducerOptions, ReaderKeywords, ConsumerKeywords):
    """The keywords of a Consumer."""


class ConsumerOverrides(ConsumerArguments, total=False):
    """Keywords that count instead of properties."""

    group_id: str


def check_group(group_id: Any, options: ConsumerOptions) -> None:
    """Raise :class:`ConfigError` for what no group takes."""
    if not isinstance(group_id, str) or not group_id.strip():
        raise ConfigError(
            "group_id is the name of the group, a text that is not empty: Consumer('orders', "
            "group_id='billing'). Without a group, read with aioproducer.Reader('orders')"
        )
    classic = options.group_protocol == "classic"
    if classic and options.heartbeat_interval_ms * 3 > options.session_timeout_ms:
        raise ConfigError(
            "heartbeat_interval_ms has to be a third of session_timeout_ms at most: one lost "
            "heartbeat must not end the session"
        )


def check_run(handle: Any, concurrency: Any, order: Any) -> None:
    """Raise :class:`ConfigError` for arguments of ``Consumer.run()`` that it does not take."""
    if iscoroutine(handle):
        handle.close()  # without a warning that nothing has awaited it
        raise ConfigError(f"run() calls the handler, so do not call it: run({handle.__name__})")
    if not callable(handle):
        raise ConfigError(f"a handler is a coroutine function (async def), not {handle!r:.80}")
    check_count("concurrency", concurrency)
    if order not in ORDERS:
        raise ConfigError(f"order is {', '.join(map(repr, ORDERS))}, not {order!r:.80}")


def checked_wait(max_wait_ms: Any) -> float | None:
    """The seconds that a read waits; None: until there is something."""
    if max_wait_ms is None:
        return None
    check_count("max_wait_ms", max_wait_ms)
    return float(max_wait_ms / 1000)


def check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{name} is an int, at least 1, not {number!r:.80}")
