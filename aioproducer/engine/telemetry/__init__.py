"""Metrics that brokers ask for and get (KIP-714).

``requester`` sends the requests when the states in ``subscription`` find them due.
``payload_maker`` turns a snapshot of the metrics into OTLP, in the steps of ``payload``.
"""
