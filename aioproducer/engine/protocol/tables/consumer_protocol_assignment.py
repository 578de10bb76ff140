"""Kafka's definition; the package explains the columns."""

TABLE = """\
ConsumerProtocolAssignment 0-3 flexible never
    assigned_partitions  []TopicPartition
        topic            string
        partitions       []int32
    user_data            bytes?            = null
"""
