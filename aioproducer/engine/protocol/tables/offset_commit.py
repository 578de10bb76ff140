"""Kafka's definition; the package explains the columns."""

TABLE = """\
OffsetCommitRequest 2-10 flexible from 8
    group_id                        string
    generation_id_or_member_epoch   int32                           = -1 ignorable
    member_id                       string                          ignorable
    group_instance_id               string?                         7-10 = null
    retention_time_ms               int64                           2-4 = -1 ignorable
    topics                          []OffsetCommitRequestTopic
        name                        string                          2-9 ignorable
        topic_id                    uuid                            10 ignorable
        partitions                  []OffsetCommitRequestPartition
            partition_index         int32
            committed_offset        int64
            committed_leader_epoch  int32                           6-10 = -1 ignorable
            committed_metadata      string?

OffsetCommitResponse 2-10 flexible from 8
    throttle_time_ms         int32                            3-10 ignorable
    topics                   []OffsetCommitResponseTopic
        name                 string                           2-9 ignorable
        topic_id             uuid                             10 ignorable
        partitions           []OffsetCommitResponsePartition
            partition_index  int32
            error_code       int16
"""
