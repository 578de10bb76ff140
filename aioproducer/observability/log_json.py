"""Log records as JSON objects, one line each. No I/O."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, and the fields of ``extra``.

    A value that JSON does not have becomes its text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The JSON object of ``record``."""
        created = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "timestamp": created.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                told.setdefault(name, value)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            told["exception"] = record.exc_text
        if record.stack_info:
            told["stack"] = self.formatStack(record.stack_info)
        try:
            return _json(told)
        except _NOT_JSON:
            return _json({name: _legal(value) for name, value in told.items()})


_NOT_JSON: Final = (TypeError, ValueError, RecursionError)
"""The errors of keys of other types, NaN, and cycles."""


def _json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)


def _legal(value: object) -> object:
    """``value``, or its text if JSON does not have it."""
    try:
        _json(value)
    except _NOT_JSON:
        return str(value)
    return value
