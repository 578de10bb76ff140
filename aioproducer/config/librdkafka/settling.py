"""The meaning that options of librdkafka have by its defaults and by each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.config.kinds import UnacceptableError
from aioproducer.config.librdkafka.row import COMPRESSION_LEVEL, OAUTH_CONFIG
from aioproducer.config.options import ADAPTIVE_LINGER_MS, OPTIONS
from aioproducer.config.secret import Hidden, Secret

__all__ = ["OauthCallback", "settle"]

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
