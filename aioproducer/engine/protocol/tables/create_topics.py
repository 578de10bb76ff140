"""Kafka's definition; the package explains the columns."""

TABLE = """\
CreateTopicsRequest 2-7 flexible from 5
    topics                   []CreatableTopic
        name                 string
        num_partitions       int32
        replication_factor   int16
        assignments          []CreatableReplicaAssignment
            partition_index  int32
            broker_ids       []int32
        configs              []CreatableTopicConfig
            name             string
            value            string?
    timeout_ms               int32                         = 60000
    validate_only            bool

CreateTopicsResponse 2-7 flexible from 5
    throttle_time_ms             int32                     ignorable
    topics                       []CreatableTopicResult
        name                     string
        topic_id                 uuid                      7 ignorable
        error_code               int16
        error_message            string?                   ignorable
        topic_config_error_code  int16                     5-7 tag 0 ignorable
        num_partitions           int32                     5-7 = -1 ignorable
        replication_factor       int16                     5-7 = -1 ignorable
        configs                  []CreatableTopicConfigs?  5-7 ignorable
            name                 string
            value                string?
            read_only            bool
            config_source        int8                      = -1 ignorable
            is_sensitive         bool
"""
