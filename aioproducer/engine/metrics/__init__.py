"""A client's counts of its own work, under the names of Kafka's Java producer.

Other rooms call ``producer_metrics``. ``names`` lists every metric with its formula, ``windows``
divides the time, ``stats`` has the counts, and ``snapshot`` computes the values of a moment. Time
is an argument.
"""

from aioproducer.engine.metrics.latency_histogram import Latencies, LatencyHistogram
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
