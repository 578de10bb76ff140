"""Metrics that brokers ask for and get (KIP-714)."""
