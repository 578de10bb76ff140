"""The first contact with the cluster."""

from __future__ import annotations

from typing import Final

from aioproducer.engine.client.describe_request import ClusterDescription, DescribeRequest
from aioproducer.engine.core.cluster_queries import ClusterQueries
from aioproducer.errors import (
    AuthenticationError,
    BootstrapError,
    NetworkError,
    ProducerError,
    RebootstrapRequiredError,
)
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout

WHOLE_CLUSTER: Final = DescribeRequest(None)
"""Asks for all topics as well."""


async def bootstrap(cluster: ClusterQueries, timeout: float) -> ClusterDescription:
    """The cluster with all topics, as the first bootstrap server that responds describes it.

    Raises:
        AuthenticationError: the last of the servers has refused the login.
        BootstrapError: no server has responded; the message has the reason of each.
    """
    reasons: list[str] = []
    last: ProducerError | None = None
    try:
        async with PatientTimeout(timeout):
            for server in cluster.bootstrap_servers:
                try:
                    found: ClusterDescription = await cluster.request(WHOLE_CLUSTER, server)
                except (NetworkError, AuthenticationError, RebootstrapRequiredError) as error:
                    reasons.append(str(error))
                    last = error
                else:
                    return found
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        reasons.append(f"no response within {duration(timeout)} (request_timeout_ms)")
    if isinstance(last, AuthenticationError):
        raise last
    raise BootstrapError(f"Unable to bootstrap: {'; '.join(reasons)}")
