"""Kafka's definition; the package explains the columns."""

TABLE = """\
OffsetFetchRequest 2-9 flexible from 6
    group_id                   string                       2-7
    topics                     []OffsetFetchRequestTopic?   2-7
        name                   string
        partition_indexes      []int32
    groups                     []OffsetFetchRequestGroup    8-9
        group_id               string
        member_id              string?                      9 = null ignorable
        member_epoch           int32                        9 = -1 ignorable
        topics                 []OffsetFetchRequestTopics?
            name               string                       ignorable
            partition_indexes  []int32
    require_stable             bool                         7-9

OffsetFetchResponse 2-9 flexible from 6
    throttle_time_ms                    int32                            3-9 ignorable
    topics                              []OffsetFetchResponseTopic       2-7
        name                            string
        partitions                      []OffsetFetchResponsePartition
            partition_index             int32
            committed_offset            int64
            committed_leader_epoch      int32                            5-7 = -1 ignorable
            metadata                    string?
            error_code                  int16
    error_code                          int16                            2-7 ignorable
    groups                              []OffsetFetchResponseGroup       8-9
        group_id                        string
        topics                          []OffsetFetchResponseTopics
            name                        string                           ignorable
            partitions                  []OffsetFetchResponsePartitions
                partition_index         int32
                committed_offset        int64
                committed_leader_epoch  int32                            = -1 ignorable
                metadata                string?
                error_code              int16
        error_code                      int16
"""
