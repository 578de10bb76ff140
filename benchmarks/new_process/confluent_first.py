"""confluent-kafka's blocking producer."""

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer


def send_first(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        delivered()

    producer.produce(topic, b"the first record", on_delivery=on_delivery)
    producer.flush()
