"""Commands for topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.testing.mock_cluster.api_versions import ApiVersions
from aioproducer.testing.mock_cluster.commands import INT32_MAX, check_name, check_range
from aioproducer.testing.mock_cluster.process import MockClusterArgumentError

__all__ = ["NO_LEADER", "Topics"]

NO_LEADER: Final = -1
"""The leader of a partition that has none."""

_PRODUCE: Final = 0
_FETCH: Final = 1
# From these versions on librdkafka looks up the leader's address for its NOT_LEADER answer
# (KIP-951) without asking whether there is a leader, and its process ends by a segfault.
_FIRST_VERSION_WITH_LEADER_HINT: Final = {_PRODUCE: 10, _FETCH: 16}
# Keeps a line below the capacity of a pipe (64 KiB), a topic name being at most 249 bytes.
_TOPICS_PER_LINE: Final = 200


class Topics(ApiVersions):
    """Topics, and the leaders of their partitions."""

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 1) -> None:
        """Create one topic, like `create_topics`."""
        self.create_topics({name: partitions}, replication_factor)

    def create_topics(self, topics: Mapping[str, int], replication_factor: int = 1) -> None:
        """Create topics that do not exist yet, each with its number of partitions.

        Without replication the leader of partition p is broker ``p % brokers + 1``; with a larger
        `replication_factor` librdkafka chooses a replica at random. Creating thousands of topics
        takes a second.
        """
        check_range("replication_factor", replication_factor, 1, self._brokers)
        for name, partitions in topics.items():
            check_name("topic", name)
            check_range("partitions", partitions, 1, 10_000)
        calls = [("topic_create", name, topics[name], replication_factor) for name in topics]
        for start in range(0, len(calls), _TOPICS_PER_LINE):
            self._running.call(*calls[start : start + _TOPICS_PER_LINE])

    def set_topic_error(self, topic: str, error: int) -> None:
        """Let Metadata and AddPartitionsToTxn return the Kafka error code `error`; 0 ends this.

        UNKNOWN_TOPIC_OR_PARTITION (3) also hides the partitions. Produce is not affected.
        """
        self._check_partition(topic, 0)
        check_range("error", error, -1, 2**15 - 1)
        self._call("topic_set_error", topic, error)

    def set_partition_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Move the leadership to a broker, or `NO_LEADER`, and raise the leader epoch by one.

        The old leader answers Produce with NOT_LEADER_OR_FOLLOWER, from version 10 on with the new
        leader's address (KIP-951). For that reason librdkafka cannot serve `NO_LEADER` to Produce
        v10 and Fetch v16: call ``set_api_version`` for versions below these before a client
        connects, or use `push_leader_response`.
        """
        self._check_partition(topic, partition)
        if broker_id == NO_LEADER:
            self._check_leaderless_is_safe()
        else:
            self._check_broker(broker_id)
        self._call("partition_set_leader", topic, partition, broker_id)

    def push_leader_response(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int
    ) -> None:
        """Let one Metadata response name this leader and epoch, correct or not.

        Several pushes take effect first to last. `leader_id` may be any number.
        """
        self._check_partition(topic, partition)
        check_range("leader_id", leader_id, -1, INT32_MAX)
        check_range("leader_epoch", leader_epoch, -1, INT32_MAX)
        self._call("partition_push_leader_response", topic, partition, leader_id, leader_epoch)

    def _check_leaderless_is_safe(self) -> None:
        for api_key, first_version in _FIRST_VERSION_WITH_LEADER_HINT.items():
            if self.api_versions[api_key][1] >= first_version:
                raise MockClusterArgumentError(
                    f"librdkafka crashes on a request of API {api_key} from version "
                    f"{first_version} on for a partition without leader; first call "
                    f"set_api_version({api_key}, 0, {first_version - 1})"
                )
