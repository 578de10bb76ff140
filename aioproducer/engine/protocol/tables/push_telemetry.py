"""Kafka's definition; the package explains the columns."""

TABLE = """\
PushTelemetryRequest 0 flexible from 0
    client_instance_id  uuid
    subscription_id     int32
    terminating         bool
    compression_type    int8
    metrics             bytes

PushTelemetryResponse 0 flexible from 0
    throttle_time_ms  int32
    error_code        int16
"""
