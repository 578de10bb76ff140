"""Kafka's definition; the package explains the columns."""

TABLE = """\
ConsumerProtocolSubscription 0-3 flexible never
    topics            []string
    user_data         bytes?            = null
    owned_partitions  []TopicPartition  1-3 ignorable
        topic         string
        partitions    []int32
    generation_id     int32             2-3 = -1 ignorable
    rack_id           string?           3 = null ignorable
"""
