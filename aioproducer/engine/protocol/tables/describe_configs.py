"""Kafka's definition; the package explains the columns."""

TABLE = """\
DescribeConfigsRequest 1-4 flexible from 4
    resources               []DescribeConfigsResource
        resource_type       int8
        resource_name       string
        configuration_keys  []string?
    include_synonyms        bool
    include_documentation   bool                       3-4

DescribeConfigsResponse 1-4 flexible from 4
    throttle_time_ms       int32
    results                []DescribeConfigsResult
        error_code         int16
        error_message      string?
        resource_type      int8
        resource_name      string
        configs            []DescribeConfigsResourceResult
            name           string
            value          string?
            read_only      bool
            config_source  int8                             = -1 ignorable
            is_sensitive   bool
            synonyms       []DescribeConfigsSynonym         ignorable
                name       string
                value      string?
                source     int8
            config_type    int8                             3-4 ignorable
            documentation  string?                          3-4 ignorable
"""
