"""Kafka's definition; the package explains the columns."""

TABLE = """\
GetTelemetrySubscriptionsRequest 0 flexible from 0
    client_instance_id  uuid

GetTelemetrySubscriptionsResponse 0 flexible from 0
    throttle_time_ms            int32
    error_code                  int16
    client_instance_id          uuid
    subscription_id             int32
    accepted_compression_types  []int8
    push_interval_ms            int32
    telemetry_max_bytes         int32
    delta_temporality           bool
    requested_metrics           []string
"""
