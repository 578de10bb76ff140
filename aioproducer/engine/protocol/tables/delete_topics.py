"""Kafka's definition; the package explains the columns."""

TABLE = """\
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
"""
