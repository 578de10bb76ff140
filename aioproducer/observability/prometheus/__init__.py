"""Metrics for Prometheus; needs the extra ``prometheus``.

::

    collector.py  the collector of prometheus_client
    workers.py    the series of the other processes of a server
    messages.py   series as bytes, between these processes
"""

from aioproducer.observability.prometheus.collector import ProducerCollector

__all__ = ["ProducerCollector"]
