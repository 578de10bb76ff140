"""Kafka's definition; the package explains the columns."""

TABLE = """\
IncrementalAlterConfigsRequest 0-1 flexible from 1
    resources                 []AlterConfigsResource
        resource_type         int8
        resource_name         string
        configs               []AlterableConfig
            name              string
            config_operation  int8
            value             string?
    validate_only             bool

IncrementalAlterConfigsResponse 0-1 flexible from 1
    throttle_time_ms   int32
    responses          []AlterConfigsResourceResponse
        error_code     int16
        error_message  string?
        resource_type  int8
        resource_name  string
"""
