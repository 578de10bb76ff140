"""The metrics of producers as time series, by the rules of Prometheus and OpenMetrics. Pure.

::

    family.py    a metric's name, kind and samples
    names.py     Kafka's names and units → names and units of Prometheus
    bounds.py    a bounded number of topics and brokers
    producer.py  a producer's metrics, latencies and health → families
    document.py  the tables of the documentation
"""

from aioproducer.observability.series.family import Families, Family, Kind, Sample
from aioproducer.observability.series.producer import (
    LATENCY_BUCKETS,
    ProducerSeries,
    SeriesOptions,
    SeriesSource,
)

__all__ = [
    "Families",
    "Family",
    "Kind",
    "LATENCY_BUCKETS",
    "ProducerSeries",
    "Sample",
    "SeriesOptions",
    "SeriesSource",
]
