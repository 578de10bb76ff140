"""Numbered records while brokers die and connections break: ``python -m benchmarks.chaos``.

A run is one client (`clients/`, in a process of its own: `client.py`) that sends a `Load` to a
Kafka of three brokers behind fault proxies, while a `Disturber` carries out what `plan.py` made of
the seed. The client writes down what became of each record (`ledger.py`); then every log is read
back by a consumer that is not ours (`read_back.py`), and `verdict.py` compares. `make chaos` does
it for us and for the peers.

The same seed gives the same records, bursts, disturbances and faults. What they meet depends on the
clock, so a run is alike, not the same.
"""
