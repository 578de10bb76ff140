"""The options of librdkafka for connections, metadata, logs and callbacks."""

from __future__ import annotations

from typing import Final

from aioproducer.config.kinds import LONG_MAX
from aioproducer.config.librdkafka.row import NO_EFFECT, mapped, refused
from aioproducer.config.librdkafka.values import flag, servers, setup_timeout, special

__all__ = ["ROWS"]

_LOGS: Final = "use Python's logging: the logger is 'aioproducer'"
_DEDICATED: Final = "omit it: it belongs to librdkafka's C API"
_OLD_BROKERS: Final = "omit it: every broker reports its versions, from Kafka 0.11 on"
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")

_CLIENT: Final = (
    mapped("metadata.broker.list bootstrap.servers", "bootstrap_servers", servers),
    mapped("client.id", "client_id"),
    mapped("enable.metrics.push", "enable_metrics_push", flag("enable_metrics_push")),
    mapped("client.rack", "client_rack", note="set partitioner_rack_aware as well"),
    refused("client.software.name client.software.version", NO_EFFECT),
    refused("builtin.features", "omit it: codecs and mechanisms are Python packages"),
    refused("plugin.library.paths", "omit it: there are no C plugins"),
    refused("interceptors", "use interceptor_classes", instead="interceptor_classes"),
    refused("opaque", "keep your own context: send() returns a future"),
    refused("internal.termination.signal", NO_EFFECT, harmless=("0",)),
    refused("enable.random.seed", NO_EFFECT, harmless=_TRUE),
    refused("enabled_events", NO_EFFECT, harmless=("0",)),
    refused("default_topic_conf", "omit it: topic options stand beside the others"),
    refused("default.topic.config", "use a dict; its options stand beside the others"),
    refused("test.mock.num.brokers test.mock.broker.rtt", "use aioproducer.testing.MockCluster"),
)

_CONNECTIONS: Final = (
    mapped("client.dns.lookup", "client_dns_lookup"),
    mapped(
        "socket.timeout.ms",
        "request_timeout_ms",
        note="at most message.timeout.ms minus linger.ms, as in librdkafka",
    ),
    mapped(
        "socket.send.buffer.bytes",
        "send_buffer_bytes",
        special("send_buffer_bytes", "0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.receive.buffer.bytes",
        "receive_buffer_bytes",
        special("receive_buffer_bytes", "0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.connection.setup.timeout.ms",
        "socket_connection_setup_timeout_ms socket_connection_setup_timeout_max_ms",
        setup_timeout,
        "every attempt has the same limit",
    ),
    mapped(
        "connections.max.idle.ms",
        "connections_max_idle_ms",
        special("connections_max_idle_ms", "0", -1),
        "0 (never) is -1 here",
    ),
    mapped(
        "reconnect.backoff.ms",
        "reconnect_backoff_ms",
        note="reconnect_backoff_max_ms is then 10,000, as in librdkafka, unless you set it too",
    ),
    mapped("reconnect.backoff.max.ms", "reconnect_backoff_max_ms"),
    refused("reconnect.backoff.jitter.ms", "omit it: the jitter is 20 %"),
    refused("socket.blocking.max.ms", NO_EFFECT),
    refused("socket.keepalive.enable", "omit it: it is always on", harmless=_TRUE),
    refused("socket.nagle.disable", "omit it: TCP_NODELAY is always set", harmless=_TRUE),
    refused("socket.max.fails", "omit it: a single timeout ends the connection", harmless=("1",)),
    refused("broker.address.ttl", "omit it: each attempt resolves the name again"),
    refused(
        "broker.address.family",
        "omit it: every address of a name is tried in turn",
        harmless=("any",),
    ),
    refused("enable.sparse.connections", "omit it: this is always so", harmless=_TRUE),
    refused("api.version.request", _OLD_BROKERS, harmless=_TRUE),
    refused(
        "api.version.request.timeout.ms",
        "use socket_connection_setup_timeout_ms",
        instead="socket_connection_setup_timeout_ms",
    ),
    refused("api.version.fallback.ms", _OLD_BROKERS, harmless=("0",)),
    refused("broker.version.fallback", _OLD_BROKERS),
    refused("receive.message.max.bytes", "omit it: the limits are built in"),
)

_METADATA: Final = (
    mapped(
        "topic.metadata.refresh.interval.ms",
        "metadata_max_age_ms",
        special("metadata_max_age_ms", "-1", LONG_MAX),
        "-1 becomes the largest number",
    ),
    mapped(
        "metadata.max.age.ms",
        "metadata_max_age_ms",
        note="in librdkafka metadata of this age is dropped, here it is fetched again",
    ),
    mapped("metadata.recovery.strategy", "metadata_recovery_strategy"),
    mapped("metadata.recovery.rebootstrap.trigger.ms", "metadata_recovery_rebootstrap_trigger_ms"),
    refused(
        "topic.metadata.refresh.fast.interval.ms",
        "use retry_backoff_ms",
        instead="retry_backoff_ms",
    ),
    refused("topic.metadata.refresh.fast.cnt", NO_EFFECT),
    refused("topic.metadata.refresh.sparse", "omit it: this is always so", harmless=_TRUE),
    refused(
        "topic.metadata.propagation.max.ms",
        "use max_block_ms, the time that a record waits for its topic",
        instead="max_block_ms",
    ),
    refused("topic.blacklist", "omit it: only topics that you send to are requested"),
    refused(
        "allow.auto.create.topics",
        "omit it: the brokers' auto.create.topics.enable decides",
        harmless=_TRUE,
    ),
)

_LOGGING: Final = (
    refused("debug", "set the level: logging.getLogger('aioproducer').setLevel(logging.DEBUG)"),
    refused("logger log_cb", _LOGS),
    refused("log_level", _LOGS),
    refused("log.queue log.thread.name log.connection.close", _LOGS),
    refused("statistics.interval.ms", "call Producer.metrics() at any time", harmless=("0",)),
    refused("stats_cb", "call Producer.metrics() at any time"),
    refused("throttle_cb", "call Producer.metrics(): produce-throttle-time-avg and -max"),
    refused("error_cb", "await the futures of send(), and call Producer.health()"),
)

_CALLBACKS: Final = (
    refused("on_delivery", "await the future of send(), or add a callback to it"),
    refused("dr_cb dr_msg_cb", "await the future of send(), or add a callback to it"),
    refused(
        "delivery.report.only.error",
        "omit it: a future that nobody awaits costs nothing",
        harmless=_FALSE,
    ),
    refused("partitioner_cb", "use partitioner, a callable", instead="partitioner"),
    refused(
        "key.serializer",
        "use key_serializer: a callable, or an object with serialize()",
        instead="key_serializer",
    ),
    refused(
        "value.serializer",
        "use value_serializer: a callable, or an object with serialize()",
        instead="value_serializer",
    ),
    refused("background_event_cb socket_cb connect_cb closesocket_cb", _DEDICATED),
    refused("open_cb resolve_cb", _DEDICATED),
    refused("msg_order_cmp", _DEDICATED),
)

ROWS: Final = (*_CLIENT, *_CONNECTIONS, *_METADATA, *_LOGGING, *_CALLBACKS)
