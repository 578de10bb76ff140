"""Kafka's definition; the package explains the columns."""

TABLE = """\
AddPartitionsToTxnRequest 0-3 flexible from 3
    v3_and_below_transactional_id  string
    v3_and_below_producer_id       int64
    v3_and_below_producer_epoch    int16
    v3_and_below_topics            []AddPartitionsToTxnTopic
        name                       string
        partitions                 []int32

AddPartitionsToTxnResponse 0-3 flexible from 3
    throttle_time_ms               int32
    results_by_topic_v3_and_below  []AddPartitionsToTxnTopicResult
        name                       string
        results_by_partition       []AddPartitionsToTxnPartitionResult
            partition_index        int32
            partition_error_code   int16
"""
