"""The producer's counts of its own work, under the names of Kafka's Java producer.

``producer_metrics`` is for the calls of other rooms; ``names`` lists every metric with its formula;
``windows`` has the time it is counted in; ``stats`` has the counts. Pure: time is an argument.
"""

from aioproducer.metrics.names import markdown
from aioproducer.metrics.producer_metrics import (
    MetricsSnapshot,
    ProducerMetrics,
    TransactionCall,
)

__all__ = ["MetricsSnapshot", "ProducerMetrics", "TransactionCall", "markdown"]
