"""Kafka's definitions of the spoken messages. The package explains them.

Written by ``python -m tests.protocol.tables``.
"""

TABLES = {
    "add_offsets_to_txn": """\
AddOffsetsToTxnRequest 0-4 flexible from 3
    transactional_id  string
    producer_id       int64
    producer_epoch    int16
    group_id          string

AddOffsetsToTxnResponse 0-4 flexible from 3
    throttle_time_ms  int32
    error_code        int16
""",
    "add_partitions_to_txn": """\
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
""",
    "api_versions": """\
ApiVersionsRequest 0-5 flexible from 3
    client_software_name     string   3-5 ignorable
    client_software_version  string   3-5 ignorable
    cluster_id               string?  5 = null ignorable
    node_id                  int32    5 = -1 ignorable

ApiVersionsResponse 0-5 flexible from 3
    error_code                int16
    api_keys                  []ApiVersion
        api_key               int16
        min_version           int16
        max_version           int16
    throttle_time_ms          int32                  1-5 ignorable
    supported_features        []SupportedFeatureKey  3-5 tag 0 ignorable
        name                  string
        min_version           int16
        max_version           int16
    finalized_features_epoch  int64                  3-5 = -1 tag 1 ignorable
    finalized_features        []FinalizedFeatureKey  3-5 tag 2 ignorable
        name                  string
        max_version_level     int16
        min_version_level     int16
    zk_migration_ready        bool                   3-5 tag 3 ignorable
""",
    "consumer_group_describe": """\
ConsumerGroupDescribeRequest 0-1 flexible from 0
    group_ids                      []string
    include_authorized_operations  bool

ConsumerGroupDescribeResponse 0-1 flexible from 0
    throttle_time_ms                int32
    groups                          []DescribedGroup
        error_code                  int16
        error_message               string?            = null
        group_id                    string
        group_state                 string
        group_epoch                 int32
        assignment_epoch            int32
        assignor_name               string
        members                     []Member
            member_id               string
            instance_id             string?            = null
            rack_id                 string?            = null
            member_epoch            int32
            client_id               string
            client_host             string
            subscribed_topic_names  []string
            subscribed_topic_regex  string?            = null
            assignment              Assignment
                topic_partitions    []TopicPartitions
                    topic_id        uuid
                    topic_name      string
                    partitions      []int32
            target_assignment       Assignment
            member_type             int8               1 = -1 ignorable
        authorized_operations       int32              = -2147483648
""",
    "consumer_group_heartbeat": """\
ConsumerGroupHeartbeatRequest 0-1 flexible from 0
    group_id                string
    member_id               string
    member_epoch            int32
    instance_id             string?             = null
    rack_id                 string?             = null
    rebalance_timeout_ms    int32               = -1
    subscribed_topic_names  []string?           = null
    subscribed_topic_regex  string?             1 = null
    server_assignor         string?             = null
    topic_partitions        []TopicPartitions?  = null
        topic_id            uuid
        partitions          []int32

ConsumerGroupHeartbeatResponse 0-1 flexible from 0
    throttle_time_ms       int32
    error_code             int16
    error_message          string?            = null
    member_id              string?            = null
    member_epoch           int32
    heartbeat_interval_ms  int32
    assignment             Assignment?        = null
        topic_partitions   []TopicPartitions
            topic_id       uuid
            partitions     []int32
""",
    "consumer_protocol_assignment": """\
ConsumerProtocolAssignment 0-3 flexible never
    assigned_partitions  []TopicPartition
        topic            string
        partitions       []int32
    user_data            bytes?            = null
""",
    "consumer_protocol_subscription": """\
ConsumerProtocolSubscription 0-3 flexible never
    topics            []string
    user_data         bytes?            = null
    owned_partitions  []TopicPartition  1-3 ignorable
        topic         string
        partitions    []int32
    generation_id     int32             2-3 = -1 ignorable
    rack_id           string?           3 = null ignorable
""",
    "create_partitions": """\
CreatePartitionsRequest 0-3 flexible from 2
    topics              []CreatePartitionsTopic
        name            string
        count           int32
        assignments     []CreatePartitionsAssignment?
            broker_ids  []int32
    timeout_ms          int32
    validate_only       bool

CreatePartitionsResponse 0-3 flexible from 2
    throttle_time_ms   int32
    results            []CreatePartitionsTopicResult
        name           string
        error_code     int16
        error_message  string?                        = null
""",
    "create_topics": """\
CreateTopicsRequest 2-7 flexible from 5
    topics                   []CreatableTopic
        name                 string
        num_partitions       int32
        replication_factor   int16
        assignments          []CreatableReplicaAssignment
            partition_index  int32
            broker_ids       []int32
        configs              []CreatableTopicConfig
            name             string
            value            string?
    timeout_ms               int32                         = 60000
    validate_only            bool

CreateTopicsResponse 2-7 flexible from 5
    throttle_time_ms             int32                     ignorable
    topics                       []CreatableTopicResult
        name                     string
        topic_id                 uuid                      7 ignorable
        error_code               int16
        error_message            string?                   ignorable
        topic_config_error_code  int16                     5-7 tag 0 ignorable
        num_partitions           int32                     5-7 = -1 ignorable
        replication_factor       int16                     5-7 = -1 ignorable
        configs                  []CreatableTopicConfigs?  5-7 ignorable
            name                 string
            value                string?
            read_only            bool
            config_source        int8                      = -1 ignorable
            is_sensitive         bool
""",
    "delete_groups": """\
DeleteGroupsRequest 0-3 flexible from 2
    groups_names  []string

DeleteGroupsResponse 0-3 flexible from 2
    throttle_time_ms   int32
    results            []DeletableGroupResult
        group_id       string
        error_code     int16
        error_message  string?                 3 = null ignorable
""",
    "delete_records": """\
DeleteRecordsRequest 0-2 flexible from 2
    topics                   []DeleteRecordsTopic
        name                 string
        partitions           []DeleteRecordsPartition
            partition_index  int32
            offset           int64
    timeout_ms               int32

DeleteRecordsResponse 0-2 flexible from 2
    throttle_time_ms         int32
    topics                   []DeleteRecordsTopicResult
        name                 string
        partitions           []DeleteRecordsPartitionResult
            partition_index  int32
            low_watermark    int64
            error_code       int16
""",
    "delete_topics": """\
DeleteTopicsRequest 1-6 flexible from 4
    topics        []DeleteTopicState  6
        name      string?             = null
        topic_id  uuid
    topic_names   []string            1-5 ignorable
    timeout_ms    int32

DeleteTopicsResponse 1-6 flexible from 4
    throttle_time_ms   int32                   ignorable
    responses          []DeletableTopicResult
        name           string?6
        topic_id       uuid                    6 ignorable
        error_code     int16
        error_message  string?                 5-6 = null ignorable
""",
    "describe_configs": """\
DescribeConfigsRequest 1-4 flexible from 4
    resources               []DescribeConfigsResource
        resource_type       int8
        resource_name       string
        configuration_keys  []string?
    include_synonyms        bool
    include_documentation   bool                       3-4

DescribeConfigsResponse 1-4 flexible from 4
    throttle_time_ms       int32
    results                []DescribeConfigsResult
        error_code         int16
        error_message      string?
        resource_type      int8
        resource_name      string
        configs            []DescribeConfigsResourceResult
            name           string
            value          string?
            read_only      bool
            config_source  int8                             = -1 ignorable
            is_sensitive   bool
            synonyms       []DescribeConfigsSynonym         ignorable
                name       string
                value      string?
                source     int8
            config_type    int8                             3-4 ignorable
            documentation  string?                          3-4 ignorable
""",
    "describe_groups": """\
DescribeGroupsRequest 0-6 flexible from 5
    groups                         []string
    include_authorized_operations  bool      3-6

DescribeGroupsResponse 0-6 flexible from 5
    throttle_time_ms           int32                   1-6 ignorable
    groups                     []DescribedGroup
        error_code             int16
        error_message          string?                 6 = null
        group_id               string
        group_state            string
        protocol_type          string
        protocol_data          string
        members                []DescribedGroupMember
            member_id          string
            group_instance_id  string?                 4-6 = null ignorable
            client_id          string
            client_host        string
            member_metadata    bytes
            member_assignment  bytes
        authorized_operations  int32                   3-6 = -2147483648
""",
    "end_txn": """\
EndTxnRequest 0-5 flexible from 3
    transactional_id  string
    producer_id       int64
    producer_epoch    int16
    committed         bool

EndTxnResponse 0-5 flexible from 3
    throttle_time_ms  int32
    error_code        int16
    producer_id       int64  5 = -1 ignorable
    producer_epoch    int16  5 = -1 ignorable
""",
    "fetch": """\
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
""",
    "find_coordinator": """\
FindCoordinatorRequest 1-6 flexible from 3
    key               string    1-3
    key_type          int8
    coordinator_keys  []string  4-6

FindCoordinatorResponse 1-6 flexible from 3
    throttle_time_ms   int32          ignorable
    error_code         int16          1-3
    error_message      string?        1-3 ignorable
    node_id            int32          1-3
    host               string         1-3
    port               int32          1-3
    coordinators       []Coordinator  4-6
        key            string
        node_id        int32
        host           string
        port           int32
        error_code     int16
        error_message  string?        ignorable
""",
    "get_telemetry_subscriptions": """\
GetTelemetrySubscriptionsRequest 0 flexible from 0
    client_instance_id  uuid

GetTelemetrySubscriptionsResponse 0 flexible from 0
    throttle_time_ms            int32
    error_code                  int16
    client_instance_id          uuid
    subscription_id             int32
    accepted_compression_types  []int8
    push_interval_ms            int32
    telemetry_max_bytes         int32
    delta_temporality           bool
    requested_metrics           []string
""",
    "heartbeat": """\
HeartbeatRequest 1-4 flexible from 4
    group_id           string
    generation_id      int32
    member_id          string
    group_instance_id  string?  3-4 = null

HeartbeatResponse 1-4 flexible from 4
    throttle_time_ms  int32  ignorable
    error_code        int16
""",
    "incremental_alter_configs": """\
IncrementalAlterConfigsRequest 0-1 flexible from 1
    resources                 []AlterConfigsResource
        resource_type         int8
        resource_name         string
        configs               []AlterableConfig
            name              string
            config_operation  int8
            value             string?
    validate_only             bool

IncrementalAlterConfigsResponse 0-1 flexible from 1
    throttle_time_ms   int32
    responses          []AlterConfigsResourceResponse
        error_code     int16
        error_message  string?
        resource_type  int8
        resource_name  string
""",
    "init_producer_id": """\
InitProducerIdRequest 0-5 flexible from 2
    transactional_id        string?
    transaction_timeout_ms  int32
    producer_id             int64    3-5 = -1
    producer_epoch          int16    3-5 = -1

InitProducerIdResponse 0-5 flexible from 2
    throttle_time_ms  int32  ignorable
    error_code        int16
    producer_id       int64  = -1
    producer_epoch    int16
""",
    "join_group": """\
JoinGroupRequest 2-9 flexible from 6
    group_id              string
    session_timeout_ms    int32
    rebalance_timeout_ms  int32                       = -1 ignorable
    member_id             string
    group_instance_id     string?                     5-9 = null
    protocol_type         string
    protocols             []JoinGroupRequestProtocol
        name              string
        metadata          bytes
    reason                string?                     8-9 = null ignorable

JoinGroupResponse 2-9 flexible from 6
    throttle_time_ms       int32                      ignorable
    error_code             int16
    generation_id          int32                      = -1
    protocol_type          string?                    7-9 = null ignorable
    protocol_name          string?7-9
    leader                 string
    skip_assignment        bool                       9
    member_id              string
    members                []JoinGroupResponseMember
        member_id          string
        group_instance_id  string?                    5-9 = null ignorable
        metadata           bytes
""",
    "leave_group": """\
LeaveGroupRequest 1-5 flexible from 4
    group_id               string
    member_id              string            1-2
    members                []MemberIdentity  3-5
        member_id          string
        group_instance_id  string?           = null
        reason             string?           5 = null ignorable

LeaveGroupResponse 1-5 flexible from 4
    throttle_time_ms       int32             ignorable
    error_code             int16
    members                []MemberResponse  3-5
        member_id          string
        group_instance_id  string?
        error_code         int16
""",
    "list_groups": """\
ListGroupsRequest 0-5 flexible from 3
    states_filter  []string  4-5
    types_filter   []string  5

ListGroupsResponse 0-5 flexible from 3
    throttle_time_ms   int32          1-5 ignorable
    error_code         int16
    groups             []ListedGroup
        group_id       string
        protocol_type  string
        group_state    string         4-5 ignorable
        group_type     string         5 ignorable
""",
    "list_offsets": """\
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
""",
    "metadata": """\
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
""",
    "offset_commit": """\
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
""",
    "offset_delete": """\
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
""",
    "offset_fetch": """\
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
""",
    "offset_for_leader_epoch": """\
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
""",
    "produce": """\
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
""",
    "push_telemetry": """\
PushTelemetryRequest 0 flexible from 0
    client_instance_id  uuid
    subscription_id     int32
    terminating         bool
    compression_type    int8
    metrics             bytes

PushTelemetryResponse 0 flexible from 0
    throttle_time_ms  int32
    error_code        int16
""",
    "sasl_authenticate": """\
SaslAuthenticateRequest 0-2 flexible from 2
    auth_bytes  bytes

SaslAuthenticateResponse 0-2 flexible from 2
    error_code           int16
    error_message        string?
    auth_bytes           bytes
    session_lifetime_ms  int64    1-2 ignorable
""",
    "sasl_handshake": """\
SaslHandshakeRequest 1 flexible never
    mechanism  string

SaslHandshakeResponse 1 flexible never
    error_code  int16
    mechanisms  []string
""",
    "sync_group": """\
SyncGroupRequest 1-5 flexible from 4
    group_id           string
    generation_id      int32
    member_id          string
    group_instance_id  string?                       3-5 = null
    protocol_type      string?                       5 = null ignorable
    protocol_name      string?                       5 = null ignorable
    assignments        []SyncGroupRequestAssignment
        member_id      string
        assignment     bytes

SyncGroupResponse 1-5 flexible from 4
    throttle_time_ms  int32    ignorable
    error_code        int16
    protocol_type     string?  5 = null ignorable
    protocol_name     string?  5 = null ignorable
    assignment        bytes
""",
    "txn_offset_commit": """\
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
""",
}
