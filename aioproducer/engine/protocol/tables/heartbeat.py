"""Kafka's definition; the package explains the columns."""

TABLE = """\
HeartbeatRequest 1-4 flexible from 4
    group_id           string
    generation_id      int32
    member_id          string
    group_instance_id  string?  3-4 = null

HeartbeatResponse 1-4 flexible from 4
    throttle_time_ms  int32  ignorable
    error_code        int16
"""
