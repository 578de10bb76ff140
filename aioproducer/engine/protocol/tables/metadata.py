"""Kafka's definition; the package explains the columns."""

TABLE = """\
MetadataRequest 4-13 flexible from 9
    topics                                 []MetadataRequestTopic?
        topic_id                           uuid                     10-13 ignorable
        name                               string?10-13
    allow_auto_topic_creation              bool                     = true
    include_cluster_authorized_operations  bool                     8-10
    include_topic_authorized_operations    bool                     8-13

MetadataResponse 4-13 flexible from 9
    throttle_time_ms                 int32                        ignorable
    brokers                          []MetadataResponseBroker
        node_id                      int32
        host                         string
        port                         int32
        rack                         string?                      = null ignorable
    cluster_id                       string?                      = null ignorable
    controller_id                    int32                        = -1 ignorable
    topics                           []MetadataResponseTopic
        error_code                   int16
        name                         string?12-13
        topic_id                     uuid                         10-13 ignorable
        is_internal                  bool                         ignorable
        partitions                   []MetadataResponsePartition
            error_code               int16
            partition_index          int32
            leader_id                int32
            leader_epoch             int32                        7-13 = -1 ignorable
            replica_nodes            []int32
            isr_nodes                []int32
            offline_replicas         []int32                      5-13 ignorable
        topic_authorized_operations  int32                        8-13 = -2147483648
    cluster_authorized_operations    int32                        8-10 = -2147483648
    error_code                       int16                        13 ignorable
"""
