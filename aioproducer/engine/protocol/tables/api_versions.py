"""Kafka's definition; the package explains the columns."""

TABLE = """\
ApiVersionsRequest 0-4 flexible from 3
    client_software_name     string  3-4 ignorable
    client_software_version  string  3-4 ignorable

ApiVersionsResponse 0-4 flexible from 3
    error_code                int16
    api_keys                  []ApiVersion
        api_key               int16
        min_version           int16
        max_version           int16
    throttle_time_ms          int32                  1-4 ignorable
    supported_features        []SupportedFeatureKey  3-4 tag 0 ignorable
        name                  string
        min_version           int16
        max_version           int16
    finalized_features_epoch  int64                  3-4 = -1 tag 1 ignorable
    finalized_features        []FinalizedFeatureKey  3-4 tag 2 ignorable
        name                  string
        max_version_level     int16
        min_version_level     int16
    zk_migration_ready        bool                   3-4 tag 3 ignorable
"""
