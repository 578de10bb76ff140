"""librdkafka's timeouts of a producer: their defaults, their limits, and what each asks of others.

``request.timeout.ms`` is the time that a broker waits for its replicas, ``socket.timeout.ms`` the
time that the client waits for a broker. Java's producer has one option for both.
"""

from __future__ import annotations

from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError, KafkaException

__all__ = ["invalid_argument", "is_number", "settle_timeouts"]

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
