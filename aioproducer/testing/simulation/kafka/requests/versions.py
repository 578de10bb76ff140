"""ApiVersions. Source: Kafka's ``KafkaApis``, ``ApiVersionsResponse``, ``BrokerFeatures``."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.messages import Fields


def api_versions(call: Call, ranges: Mapping[int, tuple[int, int]]) -> Fields:
    """The versions of all requests, and the features of the cluster.

    A logged-in client that means another broker gets an error (KIP-1242).
    """
    meant = call.body.cluster_id, call.body.node_id
    logged_in = call.login.authenticated or not call.login.required
    if logged_in and meant[0] is not None and meant != (call.cluster.id, call.broker):
        return {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}
    level = call.cluster.options.transaction_version
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": ranges_of(ranges),
        "supported_features": [
            {"name": "transaction.version", "min_version": 0, "max_version": 2},
        ],
        "finalized_features_epoch": 1,
        "finalized_features": [
            {
                "name": "transaction.version",
                "max_version_level": level,
                "min_version_level": level,
            }
        ],
        "zk_migration_ready": False,
    }


def ranges_of(ranges: Mapping[int, tuple[int, int]]) -> list[Fields]:
    """The rows of a response."""
    return [
        {"api_key": api, "min_version": low, "max_version": high}
        for api, (low, high) in sorted(ranges.items())
    ]
