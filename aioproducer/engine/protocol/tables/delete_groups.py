"""Kafka's definition; the package explains the columns."""

TABLE = """\
DeleteGroupsRequest 0-3 flexible from 2
    groups_names  []string

DeleteGroupsResponse 0-3 flexible from 2
    throttle_time_ms   int32
    results            []DeletableGroupResult
        group_id       string
        error_code     int16
        error_message  string?                 3 = null ignorable
"""
