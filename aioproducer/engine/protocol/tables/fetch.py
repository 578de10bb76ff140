"""Kafka's definition; the package explains the columns."""

TABLE = """\
FetchRequest 4-18 flexible from 12
    cluster_id                    string?           12-18 = null tag 0 ignorable
    replica_id                    int32             4-14 = -1
    replica_state                 ReplicaState      15-18 tag 1
        replica_id                int32             = -1
        replica_epoch             int64             = -1
    max_wait_ms                   int32
    min_bytes                     int32
    max_bytes                     int32             = 2147483647 ignorable
    isolation_level               int8              ignorable
    session_id                    int32             7-18 ignorable
    session_epoch                 int32             7-18 = -1 ignorable
    topics                        []FetchTopic
        topic                     string            4-12 ignorable
        topic_id                  uuid              13-18 ignorable
        partitions                []FetchPartition
            partition             int32
            current_leader_epoch  int32             9-18 = -1 ignorable
            fetch_offset          int64
            last_fetched_epoch    int32             12-18 = -1
            log_start_offset      int64             5-18 = -1 ignorable
            partition_max_bytes   int32
            replica_directory_id  uuid              17-18 tag 0 ignorable
            high_watermark        int64             18 = 9223372036854775807 tag 1 ignorable
    forgotten_topics_data         []ForgottenTopic  7-18
        topic                     string            7-12 ignorable
        topic_id                  uuid              13-18 ignorable
        partitions                []int32
    rack_id                       string            11-18 ignorable

FetchResponse 4-18 flexible from 12
    throttle_time_ms                int32                     ignorable
    error_code                      int16                     7-18 ignorable
    session_id                      int32                     7-18
    responses                       []FetchableTopicResponse
        topic                       string                    4-12 ignorable
        topic_id                    uuid                      13-18 ignorable
        partitions                  []PartitionData
            partition_index         int32
            error_code              int16
            high_watermark          int64
            last_stable_offset      int64                     = -1 ignorable
            log_start_offset        int64                     5-18 = -1 ignorable
            diverging_epoch         EpochEndOffset            12-18 tag 0
                epoch               int32                     = -1
                end_offset          int64                     = -1
            current_leader          LeaderIdAndEpoch          12-18 tag 1
                leader_id           int32                     = -1
                leader_epoch        int32                     = -1
            snapshot_id             SnapshotId                12-18 tag 2
                end_offset          int64                     = -1
                epoch               int32                     = -1
            aborted_transactions    []AbortedTransaction?     ignorable
                producer_id         int64
                first_offset        int64
            preferred_read_replica  int32                     11-18 = -1
            records                 records?
    node_endpoints                  []NodeEndpoint            16-18 tag 0
        node_id                     int32
        host                        string
        port                        int32
        rack                        string?                   = null
"""
