"""Measures aioproducer beside other Kafka producers: ``python -m benchmarks``, or ``make bench``.

A measurement is one *workload* (`workloads.py`: what is sent, and in what way) done once by one
*client* (`clients/`: who sends it, with which settings) in a process of its own (`client.py`,
`measure.py`). `runner.py` interleaves the clients round by round and has the log itself confirm
what a client claims; `summary.py` and `report.py` make one table per workload of it.

A new workload is a row in `workloads.py` and a method of the drivers that can do it; a new client
is a row in `clients/__init__.py` and a driver.
"""
