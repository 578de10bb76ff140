"""A client's counts of its own work, under the names of Kafka's Java producer.

Other packages call ``producer_metrics``. ``counts`` has the counts, in windows of time. ``names``
lists every metric with its formula, and computes the values of a moment. Time is an argument.
"""

from aioproducer.engine.metrics.counts import Latencies, LatencyHistogram
from aioproducer.engine.metrics.producer_metrics import (
    MetricsSnapshot,
    ProducerMetrics,
    TransactionCall,
)

__all__ = [
    "Latencies",
    "LatencyHistogram",
    "MetricsSnapshot",
    "ProducerMetrics",
    "TransactionCall",
]
