"""The hooks of the configuration: serializers, interceptors, partitioner, failed records.

A hook that is named by its class is made with the producer, and closed with it.

A serializer or a partitioner that fails also fails the record: ``send()`` raises a
SerializationError or an InvalidPartitionError, which is set on the future if the record had to wait
for ``prepare()`` or for its topic. Errors of interceptors, of ``on_failed`` and of each ``close()``
are logged, and the record goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aioproducer import serialization
from aioproducer.config import JavaSerializer, ProducerConfig
from aioproducer.engine.interceptors import Interceptors, begin_closing, close_failed, close_hooks
from aioproducer.foundation.logs import ClientLog
from aioproducer.foundation.runtime.tasks import is_being_cancelled
from aioproducer.serialization import Field
from aioproducer.serialization.serializer import FieldSerializer, RecordSerializers

if TYPE_CHECKING:
    # a producer without this hook imports no part of it
    from aioproducer.engine.core.failures import FailedRecordHandler

_LEAST_TO_CLOSE: Final = 0.1


class Hooks:
    """Makes the hooks that the configuration names by class, and closes them.

    ``chain_of`` makes the chain of the interceptors. Raises the error of a hook's class, after
    closing the hooks that were made before.
    """

    def __init__(
        self,
        config: ProducerConfig,
        log: ClientLog | None = None,
        chain_of: Callable[[Sequence[Any], ClientLog | None], Interceptors] = Interceptors,
    ) -> None:
        self._partitioner = config.partitioner
        self._to_close: list[Any] = []
        try:
            for hook in config.interceptor_classes:
                self._to_close.append(hook() if isinstance(hook, type) else hook)
            self.interceptors = chain_of(self._to_close, log)
            self.serializers = RecordSerializers(
                self._serializer(config.key_serializer, "key"),
                self._serializer(config.value_serializer, "value"),
            )
            self.failed_records = self._handler(config)
            """The handler of failed records; None: there is no hook for them."""
        except BaseException:
            close_hooks(self._to_close)
            raise
        self.partitioning = config.partitioner is not None
        """True if a user's partitioner chooses partitions."""

    def __bool__(self) -> bool:
        return bool(self.interceptors) or bool(self.serializers) or self.partitioning

    @property
    def only_serialize(self) -> bool:
        """True if no hook runs after the serializers, and no serializer needs preparation."""
        waits = self.serializers.need_preparation
        return not (bool(self.interceptors) or self.partitioning or waits)

    def partitioner(self) -> Any:
        """The user's partitioner, made now if it is a class."""
        return self._made(self._partitioner)

    def _made(self, hook: Any) -> Any:
        if not isinstance(hook, type):
            return hook
        made = hook()
        self._to_close.append(made)
        return made

    def _serializer(self, hook: Any, field: Field) -> FieldSerializer | None:
        if hook is None:
            return None
        if isinstance(hook, JavaSerializer):
            hook = getattr(serialization, hook.name)
        return FieldSerializer(self._made(hook), field)

    def _handler(self, config: ProducerConfig) -> FailedRecordHandler | None:
        if config.on_failed is None:
            return None
        from aioproducer.engine.core.failures import handler_of

        handler = handler_of(self._made(config.on_failed), config)
        self._to_close.append(handler)
        return handler

    async def close(self, timeout: float = 0.0) -> None:
        """Close interceptors, and the hooks that were made here; doing so twice does nothing.

        ``timeout``: seconds for the asynchronous ones together, at least a tenth of a second.
        """
        hooks, self._to_close = self._to_close, []
        with suppress(TimeoutError):
            async with asyncio.timeout(max(timeout, _LEAST_TO_CLOSE)):
                for closing in begin_closing(hooks):
                    try:
                        await closing
                    except (Exception, asyncio.CancelledError) as error:
                        if is_being_cancelled():
                            raise
                        close_failed(closing, error)

    def close_unstarted(self) -> None:
        """Close the hooks of a producer that was never started: there is no loop to wait on."""
        hooks, self._to_close = self._to_close, []
        close_hooks(hooks)
