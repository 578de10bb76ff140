"""Kafka's definition; the package explains the columns."""

TABLE = """\
TxnOffsetCommitRequest 0-6 flexible from 3
    transactional_id                string
    group_id                        string
    producer_id                     int64
    producer_epoch                  int16
    generation_id_or_member_epoch   int32                              3-6 = -1
    member_id                       string                             3-6
    group_instance_id               string?                            3-6 = null
    topics                          []TxnOffsetCommitRequestTopic
        name                        string                             0-5 ignorable
        topic_id                    uuid                               6 ignorable
        partitions                  []TxnOffsetCommitRequestPartition
            partition_index         int32
            committed_offset        int64
            committed_leader_epoch  int32                              2-6 = -1 ignorable
            committed_metadata      string?

TxnOffsetCommitResponse 0-6 flexible from 3
    throttle_time_ms         int32
    topics                   []TxnOffsetCommitResponseTopic
        name                 string                              0-5 ignorable
        topic_id             uuid                                6 ignorable
        partitions           []TxnOffsetCommitResponsePartition
            partition_index  int32
            error_code       int16
"""
