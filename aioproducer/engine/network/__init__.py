"""Bytes to and from brokers: framing, versions, connections."""
