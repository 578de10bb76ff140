"""An answer that a coordinator gives later."""

from __future__ import annotations

from aioproducer.testing.simulation.kafka.messages import Fields


class Reply:
    """The answer to a request that may wait for other members."""

    def __init__(self, fields: Fields | None = None) -> None:
        self.fields = fields
        """The response; None: the request waits."""
