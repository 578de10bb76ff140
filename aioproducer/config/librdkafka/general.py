"""The options of librdkafka for connections, metadata, logs and callbacks."""

from __future__ import annotations

from typing import Final

from aioproducer.config.kinds import LONG_MAX
from aioproducer.config.librdkafka.row import NO_EFFECT, mapped, refused
from aioproducer.config.librdkafka.values import flag, servers, setup_timeout, special

__all__ = ["ROWS"]

_LOGS: Final = "use Python's logging: the logger is 'aioproducer'"
_DEDICATED: Final = "leave it out: it belongs to librdkafka's C API"
_OLD_BROKERS: Final = (
    "leave it out: every broker from Kafka 0.11 on is asked for the versions that it knows"
)
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")

_CLIENT: Final = (
    mapped("metadata.broker.list bootstrap.servers", "bootstrap_servers", servers),
    mapped("client.id", "client_id"),
    mapped("enable.metrics.push", "enable_metrics_push", flag("enable_metrics_push")),
    mapped("client.rack", "client_rack", note="set partitioner_rack_aware as well"),
    refused("client.software.name client.software.version", NO_EFFECT),
    refused("builtin.features", "leave it out: codecs and mechanisms are packages of Python"),
    refused("plugin.library.paths", "leave it out: there are no plugins of C"),
    refused("interceptors", "give interceptor_classes", instead="interceptor_classes"),
    refused("opaque", "keep your own context: send() returns a future"),
    refused("internal.termination.signal", NO_EFFECT, harmless=("0",)),
    refused("enable.random.seed", NO_EFFECT, harmless=_TRUE),
    refused("enabled_events", NO_EFFECT, harmless=("0",)),
    refused("default_topic_conf", "leave it out: options of topics stand beside the others"),
    refused("default.topic.config", "give a dict; its options stand beside the others"),
    refused("test.mock.num.brokers test.mock.broker.rtt", "use aioproducer.testing.MockCluster"),
)

_CONNECTIONS: Final = (
    mapped("client.dns.lookup", "client_dns_lookup"),
    mapped(
        "socket.timeout.ms",
        "request_timeout_ms",
        note="at most message.timeout.ms less linger.ms, as in librdkafka",
    ),
    mapped(
        "socket.send.buffer.bytes",
        "send_buffer_bytes",
        special("send_buffer_bytes", "0", -1),
        "0, the system's choice, is -1 here",
    ),
    mapped(
        "socket.receive.buffer.bytes",
        "receive_buffer_bytes",
        special("receive_buffer_bytes", "0", -1),
        "0, the system's choice, is -1 here",
    ),
    mapped(
        "socket.connection.setup.timeout.ms",
        "socket_connection_setup_timeout_ms socket_connection_setup_timeout_max_ms",
        setup_timeout,
        "every attempt has the same bound",
    ),
    mapped(
        "connections.max.idle.ms",
        "connections_max_idle_ms",
        special("connections_max_idle_ms", "0", -1),
        "0, which is never, is -1 here",
    ),
    mapped(
        "reconnect.backoff.ms",
        "reconnect_backoff_ms",
        note="reconnect_backoff_max_ms is then 10,000, as in librdkafka, unless it is set, too",
    ),
    mapped("reconnect.backoff.max.ms", "reconnect_backoff_max_ms"),
    refused("reconnect.backoff.jitter.ms", "leave it out: the jitter is 20 %"),
    refused("socket.blocking.max.ms", NO_EFFECT),
    refused("socket.keepalive.enable", "leave it out: it is always on", harmless=_TRUE),
    refused("socket.nagle.disable", "leave it out: TCP_NODELAY is always set", harmless=_TRUE),
    refused("socket.max.fails", "leave it out: one timeout ends the connection", harmless=("1",)),
    refused("broker.address.ttl", "leave it out: each attempt asks for the addresses of the name"),
    refused(
        "broker.address.family",
        "leave it out: every address of a name is tried in turn",
        harmless=("any",),
    ),
    refused("enable.sparse.connections", "leave it out: it is so", harmless=_TRUE),
    refused("api.version.request", _OLD_BROKERS, harmless=_TRUE),
    refused(
        "api.version.request.timeout.ms",
        "give socket_connection_setup_timeout_ms",
        instead="socket_connection_setup_timeout_ms",
    ),
    refused("api.version.fallback.ms", _OLD_BROKERS, harmless=("0",)),
    refused("broker.version.fallback", _OLD_BROKERS),
    refused("receive.message.max.bytes", "leave it out: the bounds are built in"),
)

_METADATA: Final = (
    mapped(
        "topic.metadata.refresh.interval.ms",
        "metadata_max_age_ms",
        special("metadata_max_age_ms", "-1", LONG_MAX),
        "-1 is the largest number here",
    ),
    mapped(
        "metadata.max.age.ms",
        "metadata_max_age_ms",
        note="in librdkafka an age that drops metadata, here one that fetches it anew",
    ),
    mapped("metadata.recovery.strategy", "metadata_recovery_strategy"),
    mapped("metadata.recovery.rebootstrap.trigger.ms", "metadata_recovery_rebootstrap_trigger_ms"),
    refused(
        "topic.metadata.refresh.fast.interval.ms",
        "give retry_backoff_ms",
        instead="retry_backoff_ms",
    ),
    refused("topic.metadata.refresh.fast.cnt", NO_EFFECT),
    refused("topic.metadata.refresh.sparse", "leave it out: it is so", harmless=_TRUE),
    refused(
        "topic.metadata.propagation.max.ms",
        "give max_block_ms, the time that a record waits for its topic",
        instead="max_block_ms",
    ),
    refused("topic.blacklist", "leave it out: only the topics that are sent to are asked for"),
    refused(
        "allow.auto.create.topics",
        "leave it out: the brokers decide, by auto.create.topics.enable",
        harmless=_TRUE,
    ),
)

_LOGGING: Final = (
    refused("debug", "set the level: logging.getLogger('aioproducer').setLevel(logging.DEBUG)"),
    refused("logger log_cb", _LOGS),
    refused("log_level", _LOGS),
    refused("log.queue log.thread.name log.connection.close", _LOGS),
    refused("statistics.interval.ms", "ask Producer.metrics() when you want to", harmless=("0",)),
    refused("stats_cb", "ask Producer.metrics() when you want to"),
    refused("throttle_cb", "ask Producer.metrics() for produce-throttle-time-avg and -max"),
    refused("error_cb", "await the futures of send(), and ask Producer.health()"),
)

_CALLBACKS: Final = (
    refused("on_delivery", "await the future of send(), or give it a callback"),
    refused("dr_cb dr_msg_cb", "await the future of send(), or give it a callback"),
    refused(
        "delivery.report.only.error",
        "leave it out: a future that nobody awaits costs nothing",
        harmless=_FALSE,
    ),
    refused("partitioner_cb", "give partitioner, a callable", instead="partitioner"),
    refused(
        "key.serializer",
        "give key_serializer, which is called with (topic, value) or has serialize()",
        instead="key_serializer",
    ),
    refused(
        "value.serializer",
        "give value_serializer, which is called with (topic, value) or has serialize()",
        instead="value_serializer",
    ),
    refused("background_event_cb socket_cb connect_cb closesocket_cb", _DEDICATED),
    refused("open_cb resolve_cb", _DEDICATED),
    refused("msg_order_cmp", _DEDICATED),
)

ROWS: Final = (*_CLIENT, *_CONNECTIONS, *_METADATA, *_LOGGING, *_CALLBACKS)
