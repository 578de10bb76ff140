"""Kafka's definition; the package explains the columns."""

TABLE = """\
ApiVersionsRequest 0-5 flexible from 3
    client_software_name     string   3-5 ignorable
    client_software_version  string   3-5 ignorable
    cluster_id               string?  5 = null ignorable
    node_id                  int32    5 = -1 ignorable

ApiVersionsResponse 0-5 flexible from 3
    error_code                int16
    api_keys                  []ApiVersion
        api_key               int16
        min_version           int16
        max_version           int16
    throttle_time_ms          int32                  1-5 ignorable
    supported_features        []SupportedFeatureKey  3-5 tag 0 ignorable
        name                  string
        min_version           int16
        max_version           int16
    finalized_features_epoch  int64                  3-5 = -1 tag 1 ignorable
    finalized_features        []FinalizedFeatureKey  3-5 tag 2 ignorable
        name                  string
        max_version_level     int16
        min_version_level     int16
    zk_migration_ready        bool                   3-5 tag 3 ignorable
"""
