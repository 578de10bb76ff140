"""Kafka's definition; the package explains the columns."""

TABLE = """\
ListGroupsRequest 0-5 flexible from 3
    states_filter  []string  4-5
    types_filter   []string  5

ListGroupsResponse 0-5 flexible from 3
    throttle_time_ms   int32          1-5 ignorable
    error_code         int16
    groups             []ListedGroup
        group_id       string
        protocol_type  string
        group_state    string         4-5 ignorable
        group_type     string         5 ignorable
"""
