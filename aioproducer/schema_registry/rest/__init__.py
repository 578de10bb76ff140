"""The REST API of a schema registry: requests, connections, failover, and kept answers.

::

    requests.py    requests and their answers  responses.py       JSON, or the error that it means
    http.py        failover, retries, limits   sessions.py        connections
    cache.py       answers that are kept       flights.py         one request for all who wait
    references.py  schemas behind a schema     authentication.py  passwords and tokens
    addresses.py   URLs                        properties.py      Java's names
    origins.py     arguments and properties, for a pickle
"""
