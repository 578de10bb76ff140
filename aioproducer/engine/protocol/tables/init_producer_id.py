"""Kafka's definition; the package explains the columns."""

TABLE = """\
InitProducerIdRequest 0-5 flexible from 2
    transactional_id        string?
    transaction_timeout_ms  int32
    producer_id             int64    3-5 = -1
    producer_epoch          int16    3-5 = -1

InitProducerIdResponse 0-5 flexible from 2
    throttle_time_ms  int32  ignorable
    error_code        int16
    producer_id       int64  = -1
    producer_epoch    int16
"""
