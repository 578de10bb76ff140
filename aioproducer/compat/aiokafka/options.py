"""aiokafka's options with its defaults, and their counterparts here."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Final, Literal, TypedDict

from aioproducer.config import ProducerConfig
from aioproducer.config.options import ADAPTIVE_LINGER_MS, RecoveryStrategy
from aioproducer.config.producer_config import literal_configuration
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret, hidden

MISSING: Final = object()
_NUMBERS: Final = count(1)
_PORT: Final = 9092
_BATCH_SIZE: Final = 16_384
_BUFFER_MEMORY: Final = 32 * 1024 * 1024
_LONGEST_BACKOFF: Final = 1000
_INT_MAX: Final = 2**31 - 1
_ACKS: Final[dict[Any, Literal["0", "1", "all"] | None]] = {
    0: "0",
    1: "1",
    -1: "all",
    "all": "all",
    MISSING: None,
}
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd", None)
_PROTOCOLS: Final = ("SSL", "PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

Codec = Literal["gzip", "snappy", "lz4", "zstd"]

PartitionFunction = Callable[[bytes | None, list[int], list[int]], int]
"""``(key, all partitions, partitions with a leader) -> partition``."""


class _ConnectionKeywords(TypedDict, total=False):
    """The keywords of both."""

    bootstrap_servers: str | list[str]
    client_id: str | None
    metadata_max_age_ms: float
    request_timeout_ms: float
    api_version: str | None
    retry_backoff_ms: float
    security_protocol: str
    ssl_context: Any
    connections_max_idle_ms: float | None
    sasl_mechanism: str
    sasl_plain_password: str | None
    sasl_plain_username: str | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: Any
    metadata_recovery_strategy: RecoveryStrategy


class AIOKafkaOptions(_ConnectionKeywords, total=False):
    """The keywords of ``AIOKafkaProducer``, for type checkers."""

    acks: Any
    key_serializer: Callable[[Any], bytes | None] | None
    value_serializer: Callable[[Any], bytes | None] | None
    compression_type: Codec | None
    max_batch_size: int
    partitioner: PartitionFunction | None
    max_request_size: int
    linger_ms: float
    enable_idempotence: bool
    transactional_id: str | None
    transaction_timeout_ms: float


class AIOKafkaConsumerOptions(_ConnectionKeywords, total=False):
    """The keywords of ``AIOKafkaConsumer``, for type checkers."""

    group_id: str | None
    group_instance_id: str | None
    key_deserializer: Callable[[bytes | None], Any] | None
    value_deserializer: Callable[[bytes | None], Any] | None
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    check_crcs: bool
    partition_assignment_strategy: Sequence[Any]
    max_poll_interval_ms: float
    rebalance_timeout_ms: float | None
    session_timeout_ms: float
    heartbeat_interval_ms: float
    consumer_timeout_ms: float
    max_poll_records: int | None
    exclude_internal_topics: bool
    isolation_level: str
    client_rack: str | None


class _Connections:
    """The options of both that are about connections: their checks and counterparts."""

    __slots__ = ()

    bootstrap_servers: str | list[str]
    metadata_max_age_ms: float
    metadata_recovery_strategy: RecoveryStrategy
    request_timeout_ms: float
    api_version: str | None
    retry_backoff_ms: float
    connections_max_idle_ms: float | None
    security_protocol: str
    ssl_context: Any
    sasl_mechanism: str
    sasl_plain_password: str | Secret | None
    sasl_plain_username: str | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: Any

    def _check_connections(self) -> None:
        if self.api_version is not None:
            warnings.warn(
                "api_version has no effect: brokers report their versions",
                DeprecationWarning,
                stacklevel=4,
            )
        if self.security_protocol not in _PROTOCOLS:
            raise ConfigError(
                "`security_protocol` should be SSL or PLAINTEXT, or with a login SASL_SSL or "
                f"SASL_PLAINTEXT, not {self.security_protocol!r}"
            )
        if self.security_protocol in ("SSL", "SASL_SSL") and self.ssl_context is None:
            raise ConfigError(
                "`ssl_context` is mandatory if security_protocol=='SSL' or 'SASL_SSL'; "
                "aiokafka.helpers.create_ssl_context() makes one"
            )
        if self.security_protocol.startswith("SASL_"):
            self._check_login()

    def _check_login(self) -> None:
        if self.sasl_mechanism not in _MECHANISMS:
            raise ConfigError(f"sasl_mechanism is one of {_MECHANISMS}")
        by_password = self.sasl_mechanism not in ("GSSAPI", "OAUTHBEARER")
        if by_password and not (
            self.sasl_plain_username and self.sasl_plain_password not in (None, "", Secret(""))
        ):
            raise ConfigError(
                "sasl_plain_username and sasl_plain_password required for "
                f"{self.sasl_mechanism} sasl"
            )

    def _connections(self) -> dict[str, Any]:
        timeout, backoff = _whole(self.request_timeout_ms), _whole(self.retry_backoff_ms)
        idle = self.connections_max_idle_ms
        return {
            "bootstrap_servers": addresses(self.bootstrap_servers),
            "metadata_max_age_ms": _whole(self.metadata_max_age_ms),
            "metadata_recovery_strategy": self.metadata_recovery_strategy,
            "request_timeout_ms": timeout,
            "delivery_timeout_ms": min(2 * timeout + ADAPTIVE_LINGER_MS, _INT_MAX),
            "max_block_ms": timeout,
            "retry_backoff_ms": backoff,
            "retry_backoff_max_ms": max(_LONGEST_BACKOFF, backoff),
            "connections_max_idle_ms": -1 if idle is None else _whole(idle),
            **self._security(),
        }

    def _security(self) -> dict[str, Any]:
        found: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self.security_protocol in ("SSL", "SASL_SSL"):
            found["ssl_context"] = self.ssl_context
        if not self.security_protocol.startswith("SASL_"):
            return found
        found["sasl_mechanism"] = self.sasl_mechanism
        if self.sasl_mechanism == "OAUTHBEARER":
            found["sasl_oauthbearer_token_provider"] = _tokens_of(self.sasl_oauth_token_provider)
        elif self.sasl_mechanism == "GSSAPI":
            if self.sasl_kerberos_domain_name is not None:
                raise ConfigError(
                    "sasl_kerberos_domain_name has no counterpart: each broker's principal has the "
                    "host name by which the cluster advertises the broker"
                )
            found["sasl_kerberos_service_name"] = self.sasl_kerberos_service_name
        else:
            found["sasl_username"] = self.sasl_plain_username
            found["sasl_password"] = self.sasl_plain_password
        return found


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Options(_Connections):
    """One producer's options, as aiokafka has them."""

    bootstrap_servers: str | list[str] = "localhost"
    client_id: str | None = None
    metadata_max_age_ms: float = 300000
    request_timeout_ms: float = 40000
    api_version: str | None = None
    acks: Any = MISSING
    key_serializer: Callable[[Any], Any] | None = None
    value_serializer: Callable[[Any], Any] | None = None
    compression_type: Codec | None = None
    max_batch_size: int = _BATCH_SIZE
    partitioner: PartitionFunction | None = None
    max_request_size: int = 1048576
    linger_ms: float = 0
    retry_backoff_ms: float = 100
    security_protocol: str = "PLAINTEXT"
    ssl_context: Any = None
    connections_max_idle_ms: float | None = 540000
    enable_idempotence: bool = False
    transactional_id: str | None = None
    transaction_timeout_ms: float = 60000
    sasl_mechanism: str = "PLAIN"
    sasl_plain_password: str | Secret | None = None
    sasl_plain_username: str | None = None
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: Any = None
    metadata_recovery_strategy: RecoveryStrategy = "rebootstrap"
    """Not aiokafka's, which always follows the cluster that answers."""

    def check(self) -> None:
        """Raise ConfigError, a ValueError as aiokafka's; warn of what it has deprecated."""
        if self.acks not in list(_ACKS):
            raise ConfigError(f"acks is 0, 1, -1 or 'all', not {self.acks!r}")
        if self.compression_type not in _CODECS:
            raise ConfigError(
                f"compression_type is 'gzip', 'snappy', 'lz4', 'zstd' or None, "
                f"not {self.compression_type!r}"
            )
        if self._idempotent and _ACKS[self.acks] not in ("all", None):
            raise ConfigError(f"acks={self.acks} not supported if enable_idempotence=True")
        self._check_connections()

    @property
    def _idempotent(self) -> bool:
        return bool(self.enable_idempotence) or self.transactional_id is not None

    @property
    def effective_acks(self) -> Literal["0", "1", "all"]:
        """``0``, ``1`` or ``all``."""
        return _ACKS[self.acks] or ("all" if self._idempotent else "1")

    def config(self) -> ProducerConfig:
        """The configuration of the core.

        Without idempotence one request is in flight to a broker at a time, as with aiokafka: a
        retry then never changes the order of records.
        """
        timeout, linger = _whole(self.request_timeout_ms), _whole(self.linger_ms)
        connections = self._connections()
        connections["delivery_timeout_ms"] = min(
            2 * timeout + max(linger, ADAPTIVE_LINGER_MS), _INT_MAX
        )
        return literal_configuration(
            client_id=self.client_id or f"aiokafka-producer-{next(_NUMBERS)}",
            acks=self.effective_acks,
            enable_idempotence=self._idempotent,
            max_in_flight_requests_per_connection=5 if self._idempotent else 1,
            compression_type=self.compression_type or "none",
            batch_size=None if self.max_batch_size == _BATCH_SIZE else self.max_batch_size,
            linger_ms=linger or None,
            max_request_size=self.max_request_size,
            buffer_memory=max(_BUFFER_MEMORY, 4 * self.max_batch_size, 4 * self.max_request_size),
            transactional_id=self.transactional_id,
            transaction_timeout_ms=_whole(self.transaction_timeout_ms),
            **connections,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConsumerOptions(_Connections):
    """One consumer's options, as aiokafka has them."""

    bootstrap_servers: str | list[str] = "localhost"
    client_id: str | None = None
    group_id: str | None = None
    group_instance_id: str | None = None
    key_deserializer: Callable[[bytes | None], Any] | None = None
    value_deserializer: Callable[[bytes | None], Any] | None = None
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52428800
    fetch_min_bytes: int = 1
    max_partition_fetch_bytes: int = 1048576
    request_timeout_ms: float = 40000
    retry_backoff_ms: float = 100
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: float = 5000
    check_crcs: bool = True
    metadata_max_age_ms: float = 300000
    partition_assignment_strategy: Sequence[Any] = ("roundrobin",)
    max_poll_interval_ms: float = 300000
    rebalance_timeout_ms: float | None = None
    session_timeout_ms: float = 10000
    heartbeat_interval_ms: float = 3000
    consumer_timeout_ms: float = 200
    max_poll_records: int | None = None
    ssl_context: Any = None
    security_protocol: str = "PLAINTEXT"
    api_version: str | None = None
    exclude_internal_topics: bool = True
    connections_max_idle_ms: float | None = 540000
    isolation_level: str = "read_uncommitted"
    sasl_mechanism: str = "PLAIN"
    sasl_plain_password: str | Secret | None = None
    sasl_plain_username: str | None = None
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: Any = None
    client_rack: str | None = None
    metadata_recovery_strategy: RecoveryStrategy = "rebootstrap"
    """Not aiokafka's, which always follows the cluster that answers."""

    def check(self) -> None:
        """Raise ConfigError, a ValueError as aiokafka's; warn of what it has deprecated."""
        self._check_connections()
        most = self.max_poll_records
        if most is not None and (type(most) is not int or most < 1):
            raise ConfigError("`max_poll_records` should be positive Integer")
        if self.isolation_level not in ("read_uncommitted", "read_committed"):
            raise ConfigError(f"Incorrect isolation level {self.isolation_level}")

    def config(self) -> ProducerConfig:
        """The configuration of the connections."""
        return literal_configuration(
            client_id=self.client_id or f"aiokafka-consumer-{next(_NUMBERS)}",
            client_rack=self.client_rack or "",
            **self._connections(),
        )

    def reading(self) -> dict[str, Any]:
        """The other options of a ``Consumer``."""
        session, interval = _whole(self.session_timeout_ms), _whole(self.heartbeat_interval_ms)
        wait, timeout = _whole(self.fetch_max_wait_ms), _whole(self.request_timeout_ms)
        if isinstance(wait, int) and isinstance(timeout, int):  # the option refuses others
            wait = min(wait, max(timeout - 1, 0))
        in_group = self.group_id is not None
        return {
            "auto_commit": in_group and bool(self.enable_auto_commit),
            "auto_commit_interval_ms": _whole(self.auto_commit_interval_ms),
            "auto_offset_reset": str(self.auto_offset_reset).lower(),
            "check_crcs": bool(self.check_crcs),
            "fetch_max_bytes": self.fetch_max_bytes,
            "fetch_max_wait_ms": wait,
            "fetch_min_bytes": self.fetch_min_bytes,
            "group_instance_id": self.group_instance_id if in_group else None,
            "group_protocol": "classic",
            "heartbeat_interval_ms": max(min(interval, session // 3), 1),
            "isolation_level": self.isolation_level,
            "max_partition_fetch_bytes": self.max_partition_fetch_bytes,
            "max_poll_interval_ms": _whole(self.max_poll_interval_ms),
            "partition_assignment_strategy": self._strategies(),
            "session_timeout_ms": session,
        }

    @property
    def rebalance_timeout(self) -> int:
        """Milliseconds in which a member has to join again."""
        given = self.rebalance_timeout_ms
        return int(_whole(self.session_timeout_ms if given is None else given))

    def _strategies(self) -> list[Any]:
        """The assignors' names. aiokafka's are classes with Kafka's names."""
        given = [getattr(each, "name", each) for each in self.partition_assignment_strategy]
        if not given:
            raise ConfigError("partition_assignment_strategy is empty: name an assignor")
        return given


def hide_keywords(keywords: Any, kind: type[Options | ConsumerOptions] = Options) -> None:
    """Wrap the values that are secrets or of no option of aiokafka, in place and before anything
    can fail: a traceback with the values of its frames then shows no secret."""
    known = {each.name for each in fields(kind)} - {"sasl_plain_password"}
    for name, value in keywords.items():
        if name not in known or (name == "sasl_oauth_token_provider" and isinstance(value, str)):
            keywords[name] = hidden(value)


def addresses(servers: str | Iterable[str]) -> list[str]:
    """The addresses, with Kafka's port where one names none."""
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    return [_with_port(each.strip()) for each in listed if each.strip()]


def _with_port(address: str) -> str:
    if address.startswith("["):
        return address if "]:" in address else f"{address}:{_PORT}"
    if address.count(":") > 1:  # an IPv6 address
        return f"[{address}]:{_PORT}"
    return address if ":" in address else f"{address}:{_PORT}"


def _whole(milliseconds: Any) -> Any:
    """aiokafka takes fractions; here a part of a millisecond is one. Others are as they were."""
    if type(milliseconds) is float and math.isfinite(milliseconds):
        return math.ceil(milliseconds)
    return milliseconds


def _tokens_of(provider: Any) -> Callable[[], Any]:
    """A provider of tokens, from aiokafka's ``AbstractTokenProvider``."""
    if not callable(getattr(provider, "token", None)):
        raise ConfigError(
            "sasl_oauth_token_provider needs a provider with the method token(), such as a "
            "subclass of aiokafka.abc.AbstractTokenProvider"
        )

    async def token() -> tuple[str, None, None, dict[str, str]]:
        found = provider.token()
        if inspect.isawaitable(found):
            found = await found
        extensions = getattr(provider, "extensions", None)
        return found, None, None, dict(extensions() or {}) if callable(extensions) else {}

    return token


def signature(kind: type[Options | ConsumerOptions]) -> inspect.Signature:
    """The signature of ``AIOKafkaProducer``, or ``AIOKafkaConsumer``."""
    options = [(each.name, each.default) for each in fields(kind)]
    topics = [inspect.Parameter("topics", inspect.Parameter.VAR_POSITIONAL)]
    return inspect.Signature(
        [
            *(topics if kind is ConsumerOptions else ()),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in [("loop", None), *options]
            ),
        ]
    )
