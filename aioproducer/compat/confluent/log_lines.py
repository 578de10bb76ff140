"""The option ``logger``: the producer's log lines as events, so ``poll()`` hands them over."""

from __future__ import annotations

import logging
from typing import Any, Final

from aioproducer.compat.confluent.records import Outbox

__all__ = ["LogLines"]

_ROOT: Final = "aioproducer"


class LogLines(logging.Handler):
    """Appends the lines of the client ``client_id`` to ``outbox``, for the application's logger.

    ``target``: an object with ``log(level, format, *arguments)``.
    """

    def __init__(self, target: Any, outbox: Outbox, client_id: str) -> None:
        super().__init__()
        self._target = target
        self._outbox = outbox
        self._client_id = client_id

    def begin(self) -> None:
        """Take the lines from now on."""
        logging.getLogger(_ROOT).addHandler(self)

    def close(self) -> None:
        """Take no more lines."""
        logging.getLogger(_ROOT).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line of this client; those of others are not its business."""
        if getattr(record, "client_id", None) == self._client_id:
            self._outbox.put(_Line(self._target, record.levelno, record.getMessage()))


class _Line:
    """One line, for ``poll()``."""

    __slots__ = ("_level", "_target", "_text")

    def __init__(self, target: Any, level: int, text: str) -> None:
        self._target = target
        self._level = level
        self._text = text

    def serve(self) -> object:
        """Hand it over."""
        return self._target.log(self._level, "%s", self._text)
