"""Scripted errors: the next requests fail."""

from __future__ import annotations

from aioproducer.testing.mock_cluster.commands import INT32_MAX, Commands, check_range, error_codes

__all__ = ["RequestErrors"]


class RequestErrors(Commands):
    """Errors for the next requests to the cluster, to one broker, or for one partition."""

    def push_request_errors(self, api_key: int, *errors: int) -> None:
        """Let the next requests of this kind fail, one per error, at any broker.

        `errors` are Kafka's error codes, 0 for a response without error, or `DISCONNECT`. Metadata
        supports only `DISCONNECT` (see `set_topic_error`). A broker that ever had its own errors
        for this API, from `push_broker_request_errors`, never uses these.
        """
        self._check_api(api_key)
        codes = error_codes(errors)
        self._call("push_request_errors_array", api_key, len(codes), codes)

    def push_broker_request_errors(
        self, broker_id: int, api_key: int, *errors: tuple[int, int]
    ) -> None:
        """Like `push_request_errors`, for one broker. Every error has a delay in milliseconds.

        Error 0 with a delay is a slow response. `DISCONNECT` is not delayed.
        """
        self._check_broker(broker_id)
        self._check_api(api_key)
        codes = error_codes(error for error, _ in errors)
        delays = [check_range("rtt_ms", rtt_ms, 0, INT32_MAX) for _, rtt_ms in errors]
        pairs = [number for pair in zip(codes, delays, strict=True) for number in pair]
        self._call("broker_push_request_error_rtts", broker_id, api_key, len(codes), *pairs)

    def push_partition_request_errors(
        self, topic: str, partition: int, api_key: int, *errors: int
    ) -> None:
        """Like `push_request_errors`, for one partition. Other partitions are not affected."""
        self._check_partition(topic, partition)
        self._check_api(api_key)
        codes = error_codes(errors)
        self._call("partition_push_request_errors", topic, partition, api_key, len(codes), *codes)

    def clear_request_errors(self, api_key: int) -> None:
        """Remove the errors of `push_request_errors`, but keep those for brokers and partitions."""
        self._check_api(api_key)
        self._call("clear_request_errors", api_key)
