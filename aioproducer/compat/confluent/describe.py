"""The request behind ``list_topics()``."""

from __future__ import annotations

import asyncio
from typing import Final

from aioproducer.engine.client.describe_request import ClusterDescription, DescribeRequest
from aioproducer.engine.core.cluster_queries import ClusterQueries
from aioproducer.errors import NetworkError, ProducerError
from aioproducer.foundation.runtime.patience import PatientTimeout

__all__ = ["describe"]

_WHOLE_CLUSTER: Final = DescribeRequest(None)


async def describe(
    queries: ClusterQueries, topic: str | None, timeout: float | None, *, offline: bool
) -> ClusterDescription:
    """The cluster with one topic, or with all.

    ``timeout``: seconds; None: without limit. ``offline``: there is nobody to ask.

    Raises:
        NetworkError: no broker has answered in time.
    """
    request = _WHOLE_CLUSTER if topic is None else DescribeRequest((topic,))
    try:
        async with PatientTimeout(timeout):
            if offline:
                await asyncio.Event().wait()
            found: ClusterDescription = await queries.request(request)
            return found
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        raise NetworkError(
            f"no broker has described the cluster in time: {queries.why_no_answer()}"
        ) from None
