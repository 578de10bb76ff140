"""Names that are no option here: what to say about each."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from aioproducer.config.option import Option
from aioproducer.config.options import OPTIONS
from aioproducer.errors import ConfigError

__all__ = ["BY_JAVA_NAME", "WITHOUT_EFFECT", "unknown_keyword", "unknown_property"]

BY_JAVA_NAME: Final = {option.java_name: option for option in OPTIONS.values()}

WITHOUT_EFFECT: Final = {
    "auto.include.jmx.reporter": "there is no JMX; read Producer.metrics()",
    "config.providers": "placeholders are not resolved; pass such values as keywords",
    "enable.metrics.push": "metrics are not pushed to brokers (KIP-714); read Producer.metrics()",
    "metric.reporters": "Java classes cannot be loaded; read Producer.metrics()",
    "metrics.recording.level": "every metric is always recorded",
    "security.providers": "the Java runtime's security providers do not exist here",
    "ssl.engine.factory.class": "Java classes cannot be loaded",
    "ssl.keymanager.algorithm": "belongs to the Java runtime's TLS",
    "ssl.provider": "belongs to the Java runtime's TLS",
    "ssl.secure.random.implementation": "belongs to the Java runtime's TLS",
    "ssl.trustmanager.algorithm": "belongs to the Java runtime's TLS",
}
"""Java names that a properties file may hold and that change nothing here, each with its reason."""

_NOT_YET: Final = {
    "ssl.": "TLS is not available in this version",
    "sasl.": "SASL is not available in this version",
    "transaction.two.phase.": "two-phase commit is not available in this version",
}
"""Beginnings of the Java names of features to come."""

_CONSUMER_OPTIONS: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)


def unknown_keyword(name: str) -> ConfigError:
    """The error for a keyword that no option has."""
    java_name = name.replace("_", ".")
    known = BY_JAVA_NAME.get(java_name)
    return _unknown(name, java_name, known.name if known else _nearest(name, OPTIONS))


def unknown_property(name: str) -> ConfigError:
    """The error for a Java property that no option has and that is not in ``WITHOUT_EFFECT``."""
    java_name = name.replace("_", ".")
    known = java_name if java_name in BY_JAVA_NAME else _nearest(name, BY_JAVA_NAME)
    return _unknown(name, java_name, known)


def _unknown(name: str, java_name: str, nearest: str | None) -> ConfigError:
    if reason := WITHOUT_EFFECT.get(java_name):
        return ConfigError(f"option {name!r} has no effect: {reason}")
    for beginning, reason in _NOT_YET.items():
        if java_name.startswith(beginning):
            return ConfigError(f"option {name!r}: {reason}")
    if java_name in _CONSUMER_OPTIONS:
        return ConfigError(f"option {name!r} is one of Kafka's consumer, not of the producer")
    suggestion = f"; did you mean {nearest!r}?" if nearest else ""
    return ConfigError(f"unknown option {name!r}{suggestion}")


def _nearest(name: str, known: dict[str, Option]) -> str | None:
    return next(iter(get_close_matches(name.lower(), known, n=1)), None)
