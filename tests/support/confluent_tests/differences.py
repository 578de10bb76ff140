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
    "test_Wakeable.py",
    "test_threads.py",
    "test_topic_partition.py",
)
"""The files that are about producers and their values. Left out: test_AIOProducer.py and the files
beside it, which replace private parts of confluent-kafka's; test_log.py, which waits for lines of
librdkafka's ``debug``; test_oauth_cb.py, which is about consumers; test_serializer_error.py, whose
error AvroProducer raises, which we do not have."""

LEFT_OUT: Final = {
    "test_Wakeable.py": ("consumer", "test_can_be_interrupted"),
}
"""Parts of the names of tests that do not run. Those about consumers run confluent-kafka's alone.
``test_can_be_interrupted`` ends pytest with confluent-kafka's producer: without a broker its calls
return before the interruption, which then hits the test itself."""

_AVRO: Final = "is about AvroProducer, which confluent-kafka has deprecated, and we do not have"

DIFFERENCES: Final[dict[str, str]] = {
    "test_produce_batch_api_compatibility": _AVRO,
    "test_message_create_empty[empty_message_4-0-0-0-0.0-None]": (
        "makes a message without __init__, and expects the zeros of C's memory"
    ),
}
"""The reasons by the name of the test."""
