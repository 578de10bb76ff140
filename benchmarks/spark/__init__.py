"""Sinks for DataFrames, measured beside each other: ``python -m benchmarks.spark --rounds 5``."""
