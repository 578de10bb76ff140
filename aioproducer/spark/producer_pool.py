"""One producer for each configuration in a worker process, kept between tasks.

Source: ``InternalKafkaProducerPool`` of Spark's Kafka connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Timer
from typing import Final

from aioproducer.config import ProducerConfig
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.sync import Producer

logger = plain_logger(__name__)

IDLE_SECONDS: Final = 45.0
"""The time that an unused producer is kept. Spark ends idle Python workers after a minute, by
``os._exit``."""


@dataclass(slots=True)
class _Kept:
    producer: Producer
    users: int = 0
    timer: Timer | None = None


class ProducerPool:
    """Producers by configuration, of this process: a forked child begins with none."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._empty()
        forks.in_child(self._empty)

    def _empty(self) -> None:
        self._lock = free_lock()
        self._kept: dict[ProducerConfig, _Kept] = {}

    @contextmanager
    def use(self, config: ProducerConfig) -> Iterator[Producer]:
        """A context manager for the producer of ``config``, which others can use at the same time.

        If the block raises, the producer is not reused, because it may be broken. Flush it before
        the block ends; nothing else will.

        Raises:
            ConfigError: no producer can be created from ``config``.
        """
        kept = self._take(config)
        try:
            yield kept.producer
        except BaseException:
            with suppress(ProducerError):  # the raised error says more
                self._drop(config, kept)
            raise
        self._release(config, kept)

    def _take(self, config: ProducerConfig) -> _Kept:
        with self._lock:
            kept = self._kept.get(config)
            if kept is None:
                producer = Producer(config)
                producer.start()
                kept = self._kept[config] = _Kept(producer)
            kept.users += 1
            if kept.timer is not None:
                kept.timer.cancel()
                kept.timer = None
            return kept

    def _release(self, config: ProducerConfig, kept: _Kept) -> None:
        with self._lock:
            kept.users -= 1
            if kept.users:
                return
            if self._kept.get(config) is kept:
                kept.timer = Timer(self._idle_seconds, self._close_idle, (config, kept))
                kept.timer.daemon = True
                kept.timer.start()
                return
        kept.producer.close(0)

    def _close_idle(self, config: ProducerConfig, kept: _Kept) -> None:
        with self._lock:
            if kept.users or self._kept.get(config) is not kept:
                return
            del self._kept[config]
        kept.producer.close()

    def _drop(self, config: ProducerConfig, kept: _Kept) -> None:
        with self._lock:
            if self._kept.get(config) is kept:
                del self._kept[config]
        self._release(config, kept)


_pool: Final = ProducerPool()
get_pooled_producer = _pool.use
"""``with get_pooled_producer(config) as producer:`` provides an :class:`aioproducer.sync.Producer`
that all code of this process with the same ``config`` shares.

Flush it before the block ends; nothing else will. If the block raises, the producer is not reused,
because it may be broken.
"""
