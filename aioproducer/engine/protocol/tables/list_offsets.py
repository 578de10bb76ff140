"""Kafka's definition; the package explains the columns."""

TABLE = """\
ListOffsetsRequest 2-11 flexible from 6
    replica_id                    int32
    isolation_level               int8
    topics                        []ListOffsetsTopic
        name                      string
        partitions                []ListOffsetsPartition
            partition_index       int32
            current_leader_epoch  int32                   4-11 = -1 ignorable
            timestamp             int64
    timeout_ms                    int32                   10-11 ignorable

ListOffsetsResponse 2-11 flexible from 6
    throttle_time_ms         int32                           ignorable
    topics                   []ListOffsetsTopicResponse
        name                 string
        partitions           []ListOffsetsPartitionResponse
            partition_index  int32
            error_code       int16
            timestamp        int64                           = -1
            offset           int64                           = -1
            leader_epoch     int32                           4-11 = -1
"""
