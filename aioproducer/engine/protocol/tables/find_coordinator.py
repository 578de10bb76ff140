"""Kafka's definition; the package explains the columns."""

TABLE = """\
FindCoordinatorRequest 1-6 flexible from 3
    key               string    1-3
    key_type          int8
    coordinator_keys  []string  4-6

FindCoordinatorResponse 1-6 flexible from 3
    throttle_time_ms   int32          ignorable
    error_code         int16          1-3
    error_message      string?        1-3 ignorable
    node_id            int32          1-3
    host               string         1-3
    port               int32          1-3
    coordinators       []Coordinator  4-6
        key            string
        node_id        int32
        host           string
        port           int32
        error_code     int16
        error_message  string?        ignorable
"""
