"""The log of errors that samplers, propagators and processors raise."""

from __future__ import annotations

import logging

from aioproducer.foundation.logs import plain_logger

__all__ = ["Complaints"]

logger = plain_logger("aioproducer.observability.otel")


class Complaints:
    """Logs the first error as WARNING with its traceback, and later ones as DEBUG.

    ``outcome``: what the client does with the record all the same.
    """

    def __init__(self, outcome: str = "sent") -> None:
        self._outcome = outcome
        self._first = True

    def log(self, about: str) -> None:
        """Log the exception that is being handled."""
        level = logging.WARNING if self._first else logging.DEBUG
        self._first = False
        logger.log(
            level,
            "OpenTelemetry failed on %s, which is %s all the same; later errors are DEBUG",
            about,
            self._outcome,
            exc_info=True,
        )
