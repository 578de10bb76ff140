"""A configuration of ``confluent_kafka.Producer`` with librdkafka's defaults, as ours.

Of the timeouts, ``request.timeout.ms`` is the time that a broker waits for its replicas, and
``socket.timeout.ms`` the time that the client waits for a broker. Java's producer has one option
for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError, KafkaException, api_error
from aioproducer.compat.confluent.partitions import CHOICES, Choice
from aioproducer.config import ProducerConfig, ProducerOptions
from aioproducer.config.librdkafka import (
    OF_CONSUMERS,
    TUNING_ROWS,
    known_to_librdkafka,
    may_be_secret,
    text_of,
)
from aioproducer.engine.partitioning import Partitions
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.secret import Hidden, Secret, hidden

__all__ = [
    "invalid_argument",
    "is_number",
    "settle_timeouts",
    "Settings",
    "configuration",
    "hide_arguments",
    "settings_of",
]


_ACK_MS: Final = 30_000
_MOST_ACK_MS: Final = 900_000
_LINGER_MS: Final = 5
_MESSAGE_MS: Final = 300_000
_SOCKET_MS: Final = 60_000
_LEAST_SOCKET_MS: Final = 900
"""The least default of a transactional producer."""
_TRANSACTION_MS: Final = 60_000
_MARGIN_MS: Final = 100
_LINGER: Final = ("linger.ms", "queue.buffering.max.ms")
_MESSAGE: Final = ("message.timeout.ms", "delivery.timeout.ms")
_ACK: Final = "request.timeout.ms"
_SOCKET: Final = "socket.timeout.ms"


def settle_timeouts(given: dict[str, Any]) -> int:
    """Complete the timeouts in ``given``, and return the milliseconds of ``request.timeout.ms``.

    A wrong value stays, for the reader of all options to refuse.

    Raises:
        KafkaException: a timeout contradicts another one, as in librdkafka.
    """
    acks_within = _ack_ms(given)
    message = next((name for name in _MESSAGE if name in given), None)
    if given.get("transactional.id"):
        _fit_into_transaction(given, message)
    elif message is None:
        given["message.timeout.ms"] = _MESSAGE_MS
    given.setdefault(_SOCKET, _SOCKET_MS)
    _settle_linger(given)
    return acks_within


def _ack_ms(given: dict[str, Any]) -> int:
    value = given.pop(_ACK, _ACK_MS)
    if isinstance(value, bool) or not is_number(value):
        raise invalid_argument(f'Invalid value for configuration property "{_ACK}"')
    taken = int(float(value))
    if not 1 <= taken <= _MOST_ACK_MS:
        raise invalid_argument(
            f'Configuration property "{_ACK}" value {taken} is outside allowed range '
            f"1..{_MOST_ACK_MS}\n"
        )
    return taken


def _fit_into_transaction(given: dict[str, Any], message: str | None) -> None:
    """Let no record and no request outlast the transaction."""
    whole = _whole(given.get("transaction.timeout.ms", _TRANSACTION_MS))
    if whole is None:
        return
    if message is None:
        given["message.timeout.ms"] = whole
    elif (_whole(given[message]) or 0) > whole:
        raise _contradiction("`message.timeout.ms` must be set <= `transaction.timeout.ms`")
    if _SOCKET not in given:
        given[_SOCKET] = max(whole - _MARGIN_MS, _LEAST_SOCKET_MS)
    elif (_whole(given[_SOCKET]) or 0) > whole + _MARGIN_MS:
        raise _contradiction("`socket.timeout.ms` must be set <= `transaction.timeout.ms` + 100")


def _settle_linger(given: dict[str, Any]) -> None:
    """``linger.ms`` as whole milliseconds that end before the record's time does."""
    patience = next((_whole(given[name]) for name in _MESSAGE if name in given), None)
    if not any(name in given for name in _LINGER):
        given["linger.ms"] = _LINGER_MS
        if patience is not None and patience > 0:
            given["linger.ms"] = min(_LINGER_MS, patience - 1)
        return
    value = given.pop(_LINGER[1], None)
    value = given.setdefault("linger.ms", value)
    if not is_number(value):
        return
    if patience and patience <= float(value):
        raise _contradiction("`message.timeout.ms` must be greater than `linger.ms`")
    if not float(value).is_integer():
        given["linger.ms"] = int(float(value)) or 1


def _whole(value: Any) -> int | None:
    """A number of milliseconds; None: it is none."""
    return int(float(value)) if is_number(value) else None


def is_number(value: Any) -> bool:
    """True for a finite number, and for the text of one."""
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False


def invalid_argument(text: str) -> KafkaException:
    """The error of a wrong configuration."""
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, text))


def _contradiction(text: str) -> KafkaException:
    return invalid_argument(f"Failed to create producer: {text}")


logger = plain_logger("aioproducer.compat.confluent")

_MAX_MESSAGES: Final = 100_000
_MAX_KBYTES: Final = 1_048_576
_NO_LIMIT: Final = 2**31 - 1
"""The number of messages in place of 0, which librdkafka takes for no limit."""
_UNKNOWN_TOPIC_MS: Final = 30_000
_MAX_REQUEST_SIZE: Final = 1_000_000
_PER_RECORD: Final = 1024
"""Bytes beside key and value that a record may need in the buffer."""

_OF_TLS: Final = ("ssl.", "ssl_", "enable.ssl.certificate.verification")
"""How the options begin that librdkafka does not look at without TLS."""
_AUTHORITIES: Final = ("ssl.ca.location", "ssl.ca.pem")
"""The token endpoint is checked against them, whatever the connections to brokers use."""
_WITHOUT_EFFECT: Final = frozenset(name for row in TUNING_ROWS for name in row.names)
"""Options that say nothing to this producer."""
_TOPIC_CONFIG: Final = "default.topic.config"
_OWN: Final = frozenset(
    {
        "delivery.report.only.error",
        "error_cb",
        "key.serializer",
        "log_cb",
        "logger",
        "on_delivery",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "statistics.interval.ms",
        "stats_cb",
        "throttle_cb",
        "topic.metadata.propagation.max.ms",
        "value.serializer",
    }
)
"""Options that are read here; none is a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One producer's configuration."""

    config: ProducerConfig
    """The options of the engine."""
    offline: bool
    """True: there are no bootstrap servers, so records wait until they are late."""
    choice: Choice
    """The partition of a key."""
    max_messages: int
    """The most records without a served outcome."""
    max_bytes: int
    """The most bytes of their keys and values."""
    max_size: int
    """The most bytes of one record."""
    ack_timeout_ms: int
    """Milliseconds that a broker waits for its replicas: librdkafka's ``request.timeout.ms``."""
    unknown_topic_seconds: float
    """Seconds that a topic which does not exist is waited for."""
    statistics_seconds: float
    """Seconds between two calls of ``stats_cb``; 0: none."""
    asks_for_tokens: bool
    """True: there is an ``oauth_cb``."""
    only_errors: bool
    on_delivery: Callable[[KafkaError | None, Any], object] | None
    error_cb: Callable[[KafkaError], object] | None
    stats_cb: Callable[[str], object] | None
    throttle_cb: Callable[[Any], object] | None
    logger: Any
    credentials: Credentials
    """User name and password of the logins to come."""

    @property
    def transaction_seconds(self) -> float:
        """Seconds of a transactional call without timeout: twice ``transaction.timeout.ms``."""
        return 2 * self.config.transaction_timeout_ms / 1000

    def partition(
        self, _topic: str, key: bytes | None, _value: bytes | None, partitions: Partitions
    ) -> int:
        """The choice for a record that has one, once its topic is known."""
        chosen = self.choice(key, partitions.count)
        assert chosen is not None
        return chosen


class Credentials:
    """User name and password, which ``set_sasl_credentials()`` replaces."""

    @property
    def given(self) -> bool:
        """True if there are any."""
        return self._pair is not None

    def __init__(self) -> None:
        self._pair: tuple[str, Secret] | None = None

    def replace(self, username: str, password: Secret) -> None:
        """Use these at the next login."""
        self._pair = username, password

    def __call__(self) -> tuple[str, str]:
        """The pair, for a login."""
        assert self._pair is not None
        username, password = self._pair
        return username, password.reveal()


def hide_arguments(
    arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of a class, with values wrapped that may be secrets: a traceback with
    the values of its frames then shows none. Call it before anything can fail."""
    return tuple(map(_hidden_argument, arguments)), _hidden_options(keywords)


def _hidden_argument(given: Any) -> Any:
    return _hidden_options(given) if isinstance(given, Mapping) else Hidden(type(given).__name__)


def _hidden_options(given: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: _hidden_option(name, value) for name, value in given.items()}


def _hidden_option(name: Any, value: Any) -> Any:
    if name == _TOPIC_CONFIG and isinstance(value, Mapping):
        return _hidden_options(value)
    if name in _OWN or name in _WITHOUT_EFFECT or not may_be_secret(name, value):
        return value
    return hidden(text_of(value))


def configuration(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call of a class: a dict, keywords, or both.

    Raises TypeError if there are neither.
    """
    if len(arguments) > 1 or (arguments and not isinstance(arguments[0], Mapping)):
        raise TypeError("expected configuration dict")
    if not arguments and not keywords:
        raise TypeError("expected configuration dict")
    given = {**(arguments[0] if arguments else {}), **keywords}
    topic = given.pop(_TOPIC_CONFIG, None)
    return {**given, **topic} if isinstance(topic, Mapping) else given


def settings_of(given: dict[str, Any], *, memory: int | None = None) -> Settings:
    """The settings for librdkafka's options; ``given`` is used up.

    ``memory``: bytes of the engine's buffer, for records that wait for room; None: whatever the
    queue may hold, because ``produce()`` never waits.

    Raises:
        KafkaException: an option is unknown, has no counterpart or a wrong value.
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"expected the name of an option as a str, not {type(name).__name__}")
        if not known_to_librdkafka(name):
            raise invalid_argument(f'No such configuration property: "{name}"')
    _drop(given)
    callbacks = {each: _callback(given, each) for each in ("error_cb", "stats_cb", "throttle_cb")}
    on_delivery = _callback(given, "on_delivery")
    max_messages = _number(given, "queue.buffering.max.messages", _MAX_MESSAGES) or _NO_LIMIT
    max_bytes = _number(given, "queue.buffering.max.kbytes", _MAX_KBYTES) * 1024
    unknown_topic_ms = _number(given, "topic.metadata.propagation.max.ms", _UNKNOWN_TOPIC_MS)
    statistics_ms = _number(given, "statistics.interval.ms", 0)
    if memory is None or max_bytes < memory:
        memory = max_bytes + max_messages * _PER_RECORD
    choice = _choice(given)
    logs = given.pop("logger", given.pop("log_cb", None))
    offline = not {"bootstrap.servers", "metadata.broker.list"} & given.keys()
    only_errors = _flag(given, "delivery.report.only.error")
    credentials = _credentials(given)
    asks_for_tokens = "oauth_cb" in given
    ack_timeout_ms = settle_timeouts(given)
    config = _config(given, memory, credentials, offline=offline)
    return Settings(
        config=config,
        offline=offline,
        choice=choice,
        max_messages=max_messages,
        max_bytes=max_bytes,
        max_size=config.max_request_size,
        ack_timeout_ms=ack_timeout_ms,
        unknown_topic_seconds=unknown_topic_ms / 1000,
        statistics_seconds=statistics_ms / 1000,
        asks_for_tokens=asks_for_tokens,
        only_errors=only_errors,
        on_delivery=on_delivery,
        logger=logs,
        credentials=credentials,
        **callbacks,
    )


def _config(
    given: dict[str, Any], memory: int, credentials: Credentials, *, offline: bool
) -> ProducerConfig:
    """The engine's options."""
    given.setdefault("message.max.bytes", _MAX_REQUEST_SIZE)
    if offline:
        given["bootstrap.servers"] = "localhost"
    own: ProducerOptions = {"partitioner": None, "buffer_memory": memory}
    if credentials.given:
        own["sasl_credentials_provider"] = credentials
    try:
        made = ProducerConfig.from_librdkafka(given, **own)
        return made.replace(
            max_block_ms=made.delivery_timeout_ms,
            enable_metrics_push=made.enable_metrics_push and not offline,
        )
    except ConfigError as error:
        raise KafkaException(api_error(error)) from None


def _drop(given: dict[str, Any]) -> None:
    """Drop the options that have no effect here, with one log line."""
    protocol = str(given.get("security.protocol", "")).lower()
    clear = () if protocol.endswith("ssl") else _OF_TLS
    kept = _AUTHORITIES if "sasl.oauthbearer.token.endpoint.url" in given else ()
    dropped = sorted(
        name
        for name in given
        if name in _WITHOUT_EFFECT
        or name in OF_CONSUMERS
        or (name.startswith(clear) and name not in kept)
    )
    for name in dropped:
        del given[name]
    if dropped:
        logger.info("options of librdkafka without effect here: %s", ", ".join(dropped))


def _credentials(given: dict[str, Any]) -> Credentials:
    """User name and password of a mechanism that asks for them at each login."""
    credentials = Credentials()
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    username, password = given.get("sasl.username"), given.get("sasl.password")
    if mechanism.startswith(("PLAIN", "SCRAM-")) and None not in (username, password):
        user, secret = hidden(text_of(username)), hidden(text_of(password))
        if isinstance(user, Secret) and isinstance(secret, Secret):
            del given["sasl.username"], given["sasl.password"]
            credentials.replace(user.reveal(), secret)
    return credentials


def _choice(given: dict[str, Any]) -> Choice:
    name = given.pop("partitioner", "consistent_random")
    choice = CHOICES.get(name) if isinstance(name, str) else None
    if choice is None:
        raise _invalid("partitioner", name)
    return choice


def _callback(given: dict[str, Any], name: str) -> Any:
    callback = given.pop(name, None)
    if callback is not None and not callable(callback):
        raise TypeError(f"{name} requires a callable object")
    return callback


def _number(given: dict[str, Any], name: str, default: int) -> int:
    value = given.pop(name, default)
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise _invalid(name, value)
    return int(text)


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.pop(name, False)
    text = str(value).strip().lower()
    if text not in ("true", "t", "1", "false", "f", "0"):
        raise _invalid(name, value)
    return text in ("true", "t", "1")


def _invalid(name: str, value: Any) -> KafkaException:
    shown = "***" if isinstance(value, Secret) else str(value)
    return invalid_argument(f'Invalid value for configuration property "{name}": {shown}')
