"""A configuration of librdkafka or confluent-kafka into options of ours.

One error names all obstacles. ``librdkafka_options.py`` has the table of the options; here are the
values that depend on librdkafka's defaults, or on several of its options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aioproducer.config.kinds import UnacceptableError
from aioproducer.config.librdkafka_options import (
    BY_NAME,
    COMPRESSION_LEVEL,
    OAUTH_CONFIG,
    OF_CONSUMERS,
    Row,
    text_of,
)
from aioproducer.config.options import ADAPTIVE_LINGER_MS, OPTIONS
from aioproducer.config.properties import Reference
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Hidden, Secret, hidden

__all__ = [
    "OauthCallback",
    "settle",
    "hidden_librdkafka",
    "known_to_librdkafka",
    "may_be_secret",
    "options_of_librdkafka",
    "OF_CONSUMERS",
]


_MAX_IN_FLIGHT_FOR_IDEMPOTENCE: Final = 5
_RECONNECT_BACKOFF_MAX_MS: Final = 10_000
_DEFAULT_LEVEL: Final = -1
_LZ4_FAST: Final = 9
"""The level of LZ4's fast compressor here, as in Kafka; librdkafka's is 0."""
_LEVELS: Final = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}
_PROVIDER: Final = "sasl_oauthbearer_token_provider"
_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_TYPE: Final = "sasl.oauthbearer.metadata.authentication.type"
_SERVICE_NAME: Final = "sasl_kerberos_service_name"


@dataclass(frozen=True, slots=True)
class OauthCallback:
    """confluent-kafka's ``oauth_cb`` as a token provider.

    It is called with ``sasl.oauthbearer.config``, a ``str``, or with None if that is not set.
    """

    callback: Any
    config: Secret | None

    def __call__(self) -> Any:
        """The callback's answer."""
        return self.callback(None if self.config is None else self.config.reveal())


def settle(values: dict[str, Any], overrides: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Complete ``values``, our options, in place; yields obstacles by librdkafka's names."""
    yield from _settle_level(values)
    yield from _settle_tokens(values)
    fixed = {*values, *overrides}
    if "partitioner" not in fixed:
        values["partitioner"] = "consistent_random"
    in_flight = values.get("max_in_flight_requests_per_connection", 0)
    if (
        in_flight > _MAX_IN_FLIGHT_FOR_IDEMPOTENCE
        and not {"enable_idempotence", "transactional_id"} & fixed
    ):
        values["enable_idempotence"] = False
    if "reconnect_backoff_ms" in values and "reconnect_backoff_max_ms" not in fixed:
        values["reconnect_backoff_max_ms"] = _RECONNECT_BACKOFF_MAX_MS
    if _SERVICE_NAME not in fixed and _is_kerberos(values):
        values[_SERVICE_NAME] = "kafka"
    if "request_timeout_ms" not in overrides and "delivery_timeout_ms" in values:
        _settle_request_timeout(values, {**values, **overrides}.get("linger_ms"))


def _settle_request_timeout(values: dict[str, Any], linger: Any) -> None:
    """No request takes longer than the record that it carries may."""
    linger = linger if isinstance(linger, int) else ADAPTIVE_LINGER_MS
    request = values.get("request_timeout_ms", OPTIONS["request_timeout_ms"].default)
    left = values["delivery_timeout_ms"] - linger
    if 0 < left < request:
        values["request_timeout_ms"] = left


def _settle_level(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    given = values.pop(COMPRESSION_LEVEL, None)
    option = _LEVELS.get(values.get("compression_type", "none"))
    if given is None or str(given).strip() == str(_DEFAULT_LEVEL) or option is None:
        return
    if option == _LEVELS["lz4"] and str(given).strip() == "0":
        given = str(_LZ4_FAST)
    kind = OPTIONS[option].kind
    try:
        values[option] = kind.parse(str(given))
    except UnacceptableError as error:
        yield COMPRESSION_LEVEL, f"{option} here: expected {error}"


def _settle_tokens(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    config = values.pop(OAUTH_CONFIG, None)
    callback = values.get(_PROVIDER)
    if callable(callback):
        text = config if config is None or isinstance(config, Secret) else Secret(str(config))
        values[_PROVIDER] = OauthCallback(callback, text)
        values.pop(_METADATA, None)  # librdkafka asks the callback
    elif config is None or isinstance(config, Hidden):
        return
    elif values.get(_METADATA, "none") != "none":
        values[_PARAMETERS] = config.reveal() if isinstance(config, Secret) else config
    else:
        yield OAUTH_CONFIG, f"no counterpart without oauth_cb or {_TYPE}; use {_PROVIDER}"


def _is_kerberos(values: dict[str, Any]) -> bool:
    if not str(values.get("security_protocol", "")).startswith("SASL_"):
        return False
    mechanism = values.get("sasl_mechanism")
    named = any(name.startswith("sasl_kerberos_") for name in values)
    return mechanism == "GSSAPI" or (mechanism is None and named)


_TOPIC_CONFIG: Final = "default.topic.config"


@dataclass(slots=True)
class _Found:
    """The values found so far, and the obstacles."""

    values: dict[str, Any] = field(default_factory=dict)
    set_by: dict[str, str] = field(default_factory=dict)
    """Their names by ours."""
    obstacles: list[tuple[str, str]] = field(default_factory=list)


def hidden_librdkafka(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with every value wrapped that may be a secret; it holds ``default.topic.config``'s
    options beside the others, and none that is None, librdkafka's word for its default."""
    topic = config.get(_TOPIC_CONFIG)
    flat = {**config, **topic} if isinstance(topic, Mapping) else dict(config)
    if isinstance(topic, Mapping):
        del flat[_TOPIC_CONFIG]
    return {
        name: hidden(text_of(value)) if may_be_secret(name, value) else text_of(value)
        for name, value in flat.items()
        if value is not None
    }


def options_of_librdkafka(
    config: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Our options for the values of :func:`hidden_librdkafka`; those with placeholders are
    references.

    An option of theirs is not looked at if one of ours that stands for it is in ``overrides``.

    Raises:
        ConfigError: options have no counterpart, are unknown or have a wrong value; the message
            names all of them, and no secret.
    """
    found = _Found()
    for name, value in config.items():
        row = BY_NAME.get(name)
        if row is None:
            found.obstacles.append((name, _unknown(name)))
        elif not _is_replaced(row, overrides):
            _take(found, row, name, value)
    found.obstacles += settle(found.values, overrides)
    if found.obstacles:
        raise ConfigError(_message(found.obstacles))
    return found.values


def known_to_librdkafka(name: str) -> bool:
    """True if it is the name of an option of librdkafka or of confluent-kafka."""
    return name in BY_NAME or name in OF_CONSUMERS


def may_be_secret(name: object, value: object) -> bool:
    """True if no traceback is to show the value of an option with this name."""
    row = BY_NAME.get(name) if isinstance(name, str) else None
    if row is None or callable(value):
        return row is None
    if not row.options:
        return not row.harmless
    return OPTIONS[row.options[0]].kind.hides(value)


def _is_replaced(row: Row, overridden: Collection[str]) -> bool:
    replacing = {row.instead, *row.options}
    if any(name.startswith("ssl_") for name in row.options):
        replacing.add("ssl_context")
    return any(name in replacing for name in overridden)


def _take(found: _Found, row: Row, name: str, value: Any) -> None:
    if not row.options:
        if str(value).strip().lower() not in map(str.lower, row.harmless):
            found.obstacles.append((name, f"no counterpart; {row.note}"))
        return
    try:
        taken = dict(_accepted(row, name, value))
    except ConfigError as error:
        found.obstacles.append((name, str(error).removeprefix(f"{name}: ")))
        return
    for option, accepted in taken.items():
        if option not in found.values:
            found.values[option], found.set_by[option] = accepted, name
        elif found.values[option] != accepted:
            other = found.set_by[option]
            found.obstacles.append(
                (name, f"{option} here, and so is {other} with another value: keep one")
            )


def _accepted(row: Row, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    given = {row.options[0]: value} if row.convert is None else row.convert(value)
    for option, each in given.items():
        if option in OPTIONS and not isinstance(each, Reference):
            yield option, OPTIONS[option]._replace(java_name=name).accept_property(each)
        else:
            yield option, each


def _unknown(name: object) -> str:
    if name in OF_CONSUMERS:
        return "an option of consumers; omit it"
    if not isinstance(name, str):
        return "not the name of an option: it is not a str"
    if name.replace("_", ".") in BY_NAME:
        return f"unknown; did you mean {name.replace('_', '.')!r}?"
    if name in OPTIONS:
        return f"an option of this producer; pass it as a keyword: from_librdkafka(…, {name}=…)"
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower(), BY_NAME, n=1)
    return f"unknown; did you mean {nearest[0]!r}?" if nearest else "unknown"


def _message(obstacles: list[tuple[str, str]]) -> str:
    if len(obstacles) == 1:
        [(name, problem)] = obstacles
        return f"librdkafka's option {name!r}: {problem}"
    lines = (f"\n{name!r}: {problem}" for name, problem in obstacles)
    return f"{len(obstacles)} of librdkafka's options can't be taken:{''.join(lines)}"
