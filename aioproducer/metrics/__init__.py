"""What the producer counts about itself, under the names of Kafka's Java producer.

``producer_metrics`` is what other rooms call; ``names`` lists every metric with its formula;
``windows`` is the time it is counted in; ``stats`` is what is counted. Pure: time is an argument.
"""

from aioproducer.metrics.names import markdown
from aioproducer.metrics.producer_metrics import (
    MetricsSnapshot,
    ProducerMetrics,
    TransactionCall,
)

__all__ = ["MetricsSnapshot", "ProducerMetrics", "TransactionCall", "markdown"]
