"""Kafka's definition; the package explains the columns."""

TABLE = """\
OffsetForLeaderEpochRequest 3-4 flexible from 4
    replica_id                    int32                       = -2 ignorable
    topics                        []OffsetForLeaderTopic
        topic                     string
        partitions                []OffsetForLeaderPartition
            partition             int32
            current_leader_epoch  int32                       = -1 ignorable
            leader_epoch          int32

OffsetForLeaderEpochResponse 3-4 flexible from 4
    throttle_time_ms      int32                         ignorable
    topics                []OffsetForLeaderTopicResult
        topic             string
        partitions        []EpochEndOffset
            error_code    int16
            partition     int32
            leader_epoch  int32                         = -1 ignorable
            end_offset    int64                         = -1
"""
