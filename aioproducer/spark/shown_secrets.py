"""Secrets in options: Spark shows what it does not redact. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger

REDACTED: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Spark's default for ``spark.redaction.regex``: it hides an option whose name or value has it, and
shows all others in the plans of streams, in its logs and in its UI."""

_REFERENCE: Final = (
    "use a reference: '${env:NAME}', '${file:/path/of.properties:key}' or '${dir:/directory:file}'"
)
logger: Final = plain_logger(__name__)


def refuse_shown(secrets: Mapping[str, str]) -> None:
    """Refuse secrets that Spark would show, and warn of secrets that it redacts.

    ``secrets``: options that hold a secret as it is, each with its value.

    Raises:
        ConfigError: with the option, and what to give instead.
    """
    for name, value in secrets.items():
        if not REDACTED.search(name) and not REDACTED.search(value):
            raise ConfigError(
                f"{name} contains a secret, which Spark shows in its plans and logs; {_REFERENCE}"
            )
    if secrets:
        _tell_of(tuple(secrets))


@cache
def _tell_of(names: tuple[str, ...]) -> None:
    """Log them once in a process: a stream plans each of its micro-batches."""
    logger.warning(
        "%s: a secret in the options of a write, which only spark.redaction.regex hides; %s",
        ", ".join(names),
        _REFERENCE,
    )
