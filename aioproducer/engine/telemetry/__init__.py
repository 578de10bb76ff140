"""Metrics that brokers ask for and get (KIP-714).

``requester`` sends the requests when ``states`` finds them due. ``collector`` turns a snapshot of
the metrics into OTLP by ``otlp`` and ``metric_names``, and ``payload`` makes it fit into a request.
"""
