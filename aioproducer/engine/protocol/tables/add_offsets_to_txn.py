"""Kafka's definition; the package explains the columns."""

TABLE = """\
AddOffsetsToTxnRequest 0-4 flexible from 3
    transactional_id  string
    producer_id       int64
    producer_epoch    int16
    group_id          string

AddOffsetsToTxnResponse 0-4 flexible from 3
    throttle_time_ms  int32
    error_code        int16
"""
