"""Kafka's definition; the package explains the columns."""

TABLE = """\
JoinGroupRequest 2-9 flexible from 6
    group_id              string
    session_timeout_ms    int32
    rebalance_timeout_ms  int32                       = -1 ignorable
    member_id             string
    group_instance_id     string?                     5-9 = null
    protocol_type         string
    protocols             []JoinGroupRequestProtocol
        name              string
        metadata          bytes
    reason                string?                     8-9 = null ignorable

JoinGroupResponse 2-9 flexible from 6
    throttle_time_ms       int32                      ignorable
    error_code             int16
    generation_id          int32                      = -1
    protocol_type          string?                    7-9 = null ignorable
    protocol_name          string?7-9
    leader                 string
    skip_assignment        bool                       9
    member_id              string
    members                []JoinGroupResponseMember
        member_id          string
        group_instance_id  string?                    5-9 = null ignorable
        metadata           bytes
"""
