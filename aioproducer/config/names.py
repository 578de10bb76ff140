"""Names that are no option here, with a word about each."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from aioproducer.config.option import Option
from aioproducer.config.options import OPTIONS
from aioproducer.errors import ConfigError

__all__ = ["BY_JAVA_NAME", "WITHOUT_EFFECT", "unknown_keyword", "unknown_property"]

BY_JAVA_NAME: Final = {option.java_name: option for option in OPTIONS.values()}

_KINIT: Final = "nobody calls kinit here: a keytab, or a ticket cache that is renewed, is enough"
_VALIDATOR: Final = "brokers validate tokens, this client does not"
_REGISTRY: Final = "a serializer of your own speaks with the schema registry"

WITHOUT_EFFECT: Final = {
    "auto.include.jmx.reporter": "there is no JMX; read Producer.metrics()",
    "basic.auth.credentials.source": _REGISTRY,
    "basic.auth.user.info": _REGISTRY,
    "enable.metrics.push": "metrics are not pushed to brokers (KIP-714); read Producer.metrics()",
    "metric.reporters": "Java classes cannot be loaded; read Producer.metrics()",
    "metrics.recording.level": "every metric is always recorded",
    "sasl.kerberos.kinit.cmd": _KINIT,
    "sasl.kerberos.min.time.before.relogin": _KINIT,
    "sasl.kerberos.ticket.renew.jitter": _KINIT,
    "sasl.kerberos.ticket.renew.window.factor": _KINIT,
    "sasl.oauthbearer.clock.skew.seconds": _VALIDATOR,
    "sasl.oauthbearer.expected.audience": _VALIDATOR,
    "sasl.oauthbearer.expected.issuer": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.url": _VALIDATOR,
    "sasl.oauthbearer.jwt.validator.class": _VALIDATOR,
    "sasl.oauthbearer.scope.claim.name": _VALIDATOR,
    "sasl.oauthbearer.sub.claim.name": _VALIDATOR,
    "schema.registry.url": _REGISTRY,
    "security.providers": "the Java runtime's security providers do not exist here",
    "session.timeout.ms": "it is one of Kafka's consumer, which templates for all clients have",
    "ssl.engine.factory.class": "Java classes cannot be loaded",
    "ssl.keymanager.algorithm": "belongs to the Java runtime's TLS",
    "ssl.provider": "belongs to the Java runtime's TLS",
    "ssl.secure.random.implementation": "belongs to the Java runtime's TLS",
    "ssl.trustmanager.algorithm": "belongs to the Java runtime's TLS",
}
"""Java names that a properties file may hold and that change nothing here, each with its reason."""

_TRUSTSTORE: Final = "the file of ssl_truststore_location with ssl_truststore_type='PEM'"
_KEYSTORE: Final = (
    "one file with key and certificate, ssl_keystore_location with ssl_keystore_type='PEM'"
)
_OTHER_CLIENTS: Final = {
    "enable.ssl.certificate.verification": "an ssl_context of your own",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.oauth.token.provider": "sasl_oauthbearer_token_provider",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl.plain.password": "sasl_password",
    "sasl.plain.username": "sasl_username",
    "ssl.ca.location": _TRUSTSTORE,
    "ssl.ca.pem": "ssl_truststore_certificates with ssl_truststore_type='PEM'",
    "ssl.cafile": _TRUSTSTORE,
    "ssl.certfile": _KEYSTORE,
    "ssl.certificate.location": _KEYSTORE,
    "ssl.certificate.pem": "ssl_keystore_certificate_chain with ssl_keystore_type='PEM'",
    "ssl.check.hostname": "ssl_endpoint_identification_algorithm",
    "ssl.ciphers": "ssl_cipher_suites",
    "ssl.crlfile": "ssl_crl_location",
    "ssl.key.location": _KEYSTORE,
    "ssl.key.pem": "ssl_keystore_key with ssl_keystore_type='PEM'",
    "ssl.keyfile": _KEYSTORE,
}
"""Names that librdkafka, aiokafka and kafka-python have, with their counterparts here."""

_NOT_YET: Final = {
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
    if java_name in _OTHER_CLIENTS:
        return ConfigError(
            f"option {name!r} is one of another client; here it is {_OTHER_CLIENTS[java_name]}"
        )
    for beginning, reason in _NOT_YET.items():
        if java_name.startswith(beginning):
            return ConfigError(f"option {name!r}: {reason}")
    if java_name in _CONSUMER_OPTIONS:
        return ConfigError(f"option {name!r} is one of Kafka's consumer, not of the producer")
    suggestion = f"; did you mean {nearest!r}?" if nearest else ""
    return ConfigError(f"unknown option {name!r}{suggestion}")


def _nearest(name: str, known: dict[str, Option]) -> str | None:
    return next(iter(get_close_matches(name.lower(), known, n=1)), None)
