"""The REST API of a schema registry: requests, connections, failover, and kept answers.

::

    requests.py   requests, responses, errors             http.py            connections, failover
    answers.py    answers that are kept, or waited for    authentication.py  passwords and tokens
    addresses.py  URLs                                    origins.py         arguments, properties
"""
