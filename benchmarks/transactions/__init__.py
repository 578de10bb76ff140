"""Measures transactions on a real Kafka: ``python -m benchmarks.transactions --protocol 2``.

`plan.py` has what is done (`Load`) and who does it (`Client`); each run is one client at one load
in a process of its own (`client.py` with a driver of `drivers.py`, or `TransactionLoop.java`).
`run.py` interleaves the clients round by round on one cluster per version of the protocol, and
reads every record back as a consumer with ``read_committed`` sees it; `report.py` makes a table per
load of it.
"""
