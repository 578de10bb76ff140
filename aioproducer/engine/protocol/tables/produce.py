"""Kafka's definition; the package explains the columns."""

TABLE = """\
ProduceRequest 7-13 flexible from 9
    transactional_id    string?                 = null
    acks                int16
    timeout_ms          int32
    topic_data          []TopicProduceData
        name            string                  7-12 ignorable
        topic_id        uuid                    13 ignorable
        partition_data  []PartitionProduceData
            index       int32
            records     records?

ProduceResponse 7-13 flexible from 9
    responses                              []TopicProduceResponse
        name                               string                       7-12 ignorable
        topic_id                           uuid                         13 ignorable
        partition_responses                []PartitionProduceResponse
            index                          int32
            error_code                     int16
            base_offset                    int64
            log_append_time_ms             int64                        = -1 ignorable
            log_start_offset               int64                        = -1 ignorable
            record_errors                  []BatchIndexAndErrorMessage  8-13 ignorable
                batch_index                int32
                batch_index_error_message  string?                      = null
            error_message                  string?                      8-13 = null ignorable
            current_leader                 LeaderIdAndEpoch             10-13 tag 0
                leader_id                  int32                        = -1
                leader_epoch               int32                        = -1
    throttle_time_ms                       int32                        ignorable
    node_endpoints                         []NodeEndpoint               10-13 tag 0
        node_id                            int32
        host                               string
        port                               int32
        rack                               string?                      = null
"""
