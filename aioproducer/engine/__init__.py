"""A running producer: from a record to its acknowledgement.

A package imports only those below it.

::

    bulk          send_many() of values, records and Arrow columns; SendReport
    core          the core of a producer: its life, the paths of a record, the engine
    sender        the coroutine: requests out, responses in, outcomes carried out
    telemetry     metrics that brokers ask for (KIP-714)
    groups        members of a consumer group: who reads what, and their requests; without I/O
    transactions  sequence numbers and the transactional state machine, without I/O
    client        what all clients share: connections by a configuration, requests to await
    network       connections, frames, versions, logins on a connection
    accumulator   batches by partition, memory, quotas
    columnar      Arrow columns into Avro, JSON and Protobuf, and their derived schemas
    cluster       metadata: what is known, and what to ask
    records       record batches: encoding, decoding, compression, the compiled loops
    interceptors  the chain of interceptors
    partitioning  partitioners, the hashes of keys
    observer      the protocol of what follows records, batches and requests
    protocol      Kafka's messages: a table for each, decoders and encoders
    metrics       counters, windows, the names of metrics
"""
