"""Kafka's definition; the package explains the columns."""

TABLE = """\
LeaveGroupRequest 1-5 flexible from 4
    group_id               string
    member_id              string            1-2
    members                []MemberIdentity  3-5
        member_id          string
        group_instance_id  string?           = null
        reason             string?           5 = null ignorable

LeaveGroupResponse 1-5 flexible from 4
    throttle_time_ms       int32             ignorable
    error_code             int16
    members                []MemberResponse  3-5
        member_id          string
        group_instance_id  string?
        error_code         int16
"""
