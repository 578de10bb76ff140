"""Kafka's definition; the package explains the columns."""

TABLE = """\
OffsetDeleteRequest 0 flexible never
    group_id                 string
    topics                   []OffsetDeleteRequestTopic
        name                 string
        partitions           []OffsetDeleteRequestPartition
            partition_index  int32

OffsetDeleteResponse 0 flexible never
    error_code               int16
    throttle_time_ms         int32                            ignorable
    topics                   []OffsetDeleteResponseTopic
        name                 string
        partitions           []OffsetDeleteResponsePartition
            partition_index  int32
            error_code       int16
"""
