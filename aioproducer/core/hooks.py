"""The user's hooks of one producer: interceptors, serializers and the partitioner."""

from __future__ import annotations

from typing import Any

from aioproducer.config import ProducerConfig
from aioproducer.interceptors import Interceptors, close_hooks
from aioproducer.logs import ClientLog


class Hooks:
    """Makes the hooks that the configuration names by class, and closes them.

    Raises the error of a hook's class, after closing the hooks that were made before.
    """

    def __init__(self, config: ProducerConfig, log: ClientLog | None = None) -> None:
        self._partitioner = config.partitioner
        self._to_close: list[Any] = []
        try:
            for hook in config.interceptor_classes:
                self._to_close.append(hook() if isinstance(hook, type) else hook)
            self.interceptors = Interceptors(self._to_close, log)
            self.key_serializer = self._made(config.key_serializer)
            self.value_serializer = self._made(config.value_serializer)
        except BaseException:
            self.close()
            raise
        self.serializing = not (self.key_serializer is self.value_serializer is None)
        """True if keys or values pass a serializer."""
        self.partitioning = config.partitioner is not None
        """True if a user's partitioner chooses partitions."""

    def __bool__(self) -> bool:
        return bool(self.interceptors) or self.serializing or self.partitioning

    def partitioner(self) -> Any:
        """The user's partitioner, made now if it is a class."""
        return self._made(self._partitioner)

    def _made(self, hook: Any) -> Any:
        if not isinstance(hook, type):
            return hook
        made = hook()
        self._to_close.append(made)
        return made

    def close(self) -> None:
        """Close interceptors, and the hooks that were made here; doing so twice does nothing."""
        hooks, self._to_close = self._to_close, []
        close_hooks(hooks)
