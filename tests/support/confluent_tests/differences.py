"""The tests of confluent-kafka 2.15 that cannot pass with our producer, and the reason of each."""

from __future__ import annotations

from typing import Final

FILES: Final = (
    "test_Producer.py",
    "test_error.py",
    "test_kafka_error.py",
    "test_message.py",
    "test_misc.py",
    "test_partitioners.py",
    "test_threads.py",
    "test_topic_partition.py",
)
"""The files that are about producers and their values. Left out: test_AIOProducer.py and the files
beside it, which replace private parts of confluent-kafka's; test_log.py, which waits for lines of
librdkafka's ``debug``; test_oauth_cb.py, which is about consumers."""

_AVRO: Final = "is about AvroProducer, which confluent-kafka has deprecated, and we do not have"

DIFFERENCES: Final[dict[str, str]] = {
    "test_produce_batch_api_compatibility": _AVRO,
    "test_message_create_empty[empty_message_4-0-0-0-0.0-None]": (
        "makes a message without __init__, and expects the zeros of C's memory"
    ),
}
"""The reasons by the name of the test."""
