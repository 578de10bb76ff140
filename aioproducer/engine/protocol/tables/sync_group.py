"""Kafka's definition; the package explains the columns."""

TABLE = """\
SyncGroupRequest 1-5 flexible from 4
    group_id           string
    generation_id      int32
    member_id          string
    group_instance_id  string?                       3-5 = null
    protocol_type      string?                       5 = null ignorable
    protocol_name      string?                       5 = null ignorable
    assignments        []SyncGroupRequestAssignment
        member_id      string
        assignment     bytes

SyncGroupResponse 1-5 flexible from 4
    throttle_time_ms  int32    ignorable
    error_code        int16
    protocol_type     string?  5 = null ignorable
    protocol_name     string?  5 = null ignorable
    assignment        bytes
"""
