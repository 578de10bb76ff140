"""Values as librdkafka writes them, into values of our options."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final

from aioproducer.config.librdkafka.row import Converted
from aioproducer.config.placeholders import Provider, Providers, Reference
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = [
    "authorities",
    "certificate_file",
    "cipher_suites",
    "codec",
    "flag",
    "grant_type",
    "host_name_check",
    "kibibytes",
    "partitioner",
    "pem_text",
    "pkcs12",
    "servers",
    "setup_timeout",
    "special",
    "text_of",
    "whole_milliseconds",
]

_PORT: Final = 9092
_FILE: Final = Providers((("dir", Provider("dir", automatic=False)),))
_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer"
_PARTITIONERS: Final = {
    "random": "random",
    "consistent": "consistent",
    "consistent_random": "consistent_random",
    "murmur2": "murmur2_random",  # keyless records never reach their partitioners
    "murmur2_random": "murmur2_random",
    "fnv1a": "fnv1a",
    "fnv1a_random": "fnv1a",
}
"""Ours by librdkafka's names; where names differ, the partitions are the same."""


def text_of(value: Any) -> Any:
    """A value as confluent-kafka hands it to librdkafka; other types than numbers as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value


def _plain(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def flag(option: str) -> Callable[[Any], Converted]:
    """librdkafka's booleans: ``true``, ``t`` and ``1``, or ``false``, ``f`` and ``0``."""
    words = {"t": "true", "1": "true", "f": "false", "0": "false"}
    return lambda value: {option: words.get(str(value).strip().lower(), value)}


def special(option: str, theirs: str, ours: int) -> Callable[[Any], Converted]:
    """A number of which one value has a meaning of its own."""
    return lambda value: {option: ours if str(value).strip() == theirs else value}


def servers(value: Any) -> Converted:
    """A port that is not given is Kafka's usual one."""
    if not isinstance(value, str):
        return {"bootstrap_servers": value}
    addresses = [each.strip() for each in value.split(",") if each.strip()]
    return {"bootstrap_servers": ",".join(map(_with_port, addresses))}


def _with_port(address: str) -> str:
    host = address.rpartition("://")[2]
    return f"{address}:{_PORT}" if host.endswith("]") or ":" not in host else address


def whole_milliseconds(value: Any) -> Converted:
    """librdkafka takes fractions of a millisecond."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return {"linger_ms": value}
    if not number.is_integer():
        raise ConfigError("it must be whole milliseconds here: round it up or down")
    return {"linger_ms": int(number)}


def kibibytes(value: Any) -> Converted:
    """``queue.buffering.max.kbytes`` in bytes."""
    text = str(value).strip()
    return {"buffer_memory": int(text) * 1024 if text.isascii() and text.isdigit() else value}


def codec(value: Any) -> Converted:
    """``inherit``, the default of a topic, sets nothing."""
    return {} if str(value).strip().lower() == "inherit" else {"compression_type": value}


def partitioner(value: Any) -> Converted:
    """A partitioner of librdkafka's by its name; a callable is one of the user's own."""
    if not isinstance(value, str):
        return {"partitioner": value}
    name = _PARTITIONERS.get(value.strip())
    if name is None:
        raise ConfigError(
            f"{value!r} is none of {', '.join(_PARTITIONERS)}; pass another one as a keyword: "
            "from_librdkafka(…, partitioner=…)"
        )
    return {"partitioner": name}


def setup_timeout(value: Any) -> Converted:
    """One bound for every attempt: it does not grow with failures."""
    return {
        "socket_connection_setup_timeout_ms": value,
        "socket_connection_setup_timeout_max_ms": value,
    }


def grant_type(value: Any) -> Converted:
    """The two grants of OAuth, by Kafka's class names."""
    kinds = {
        "client_credentials": "ClientCredentialsJwtRetriever",
        "urn:ietf:params:oauth:grant-type:jwt-bearer": "JwtBearerJwtRetriever",
    }
    name = kinds.get(str(value).strip())
    if name is None:
        raise ConfigError(f"{value!r} is none of {', '.join(kinds)}")
    return {"sasl_oauthbearer_jwt_retriever_class": f"{_RETRIEVER}.{name}"}


# --- TLS -----------------------------------------------------------------------------------


def host_name_check(value: Any) -> Converted:
    """``none`` is the empty text here."""
    name = str(value).strip().lower()
    return {"ssl_endpoint_identification_algorithm": "" if name == "none" else value}


def cipher_suites(value: Any) -> Converted:
    """OpenSSL's list, without its words for groups of suites."""
    names = str(value).replace(":", ",").replace(" ", ",").split(",")
    wrong = [
        name for name in names if name and not name.replace("-", "").replace("_", "").isalnum()
    ]
    if wrong:
        raise ConfigError(f"{wrong[0]!r} is not a suite: list the suites one by one")
    return {"ssl_cipher_suites": ",".join(names)}


def authorities(value: Any) -> Converted:
    """A PEM file; ``probe`` means the system's authorities, which are the default here."""
    if str(value).strip() == "probe":
        return {}
    return {"ssl_truststore_location": value, "ssl_truststore_type": "PEM"}


def pem_text(option: str) -> Callable[[Any], Converted]:
    """A key, or certificates, as PEM text."""
    store = option.split("_")[1]
    return lambda value: {option: value, f"ssl_{store}_type": "PEM"}


def certificate_file(option: str) -> Callable[[Any], Converted]:
    """A file of its own for the key, or for the certificates: a placeholder that is read here."""

    def convert(value: Any) -> Converted:
        directory, name = posixpath.split(_plain(value))
        if not name or any(each in directory + name for each in ":}"):
            raise ConfigError(
                "a placeholder can't contain this path: put key and certificate into one PEM file,"
                " ssl_keystore_location with ssl_keystore_type='PEM'"
            )
        text = Secret(f"${{dir:{directory or '.'}:{name}}}")
        return {option: Reference(text, _FILE), "ssl_keystore_type": "PEM"}

    return convert


def pkcs12(value: Any) -> Converted:
    """librdkafka's keystores are PKCS#12."""
    return {"ssl_keystore_location": value, "ssl_keystore_type": "PKCS12"}
