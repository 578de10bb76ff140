"""Kafka's messages: a table for each, and one interpreter of the tables. No I/O.

A table (:mod:`aioproducer.engine.protocol.tables`) is Kafka's own definition of a request and its
response, in columns; ``python -m tests.protocol.tables`` writes them from Kafka's jar::

    FetchResponse 4-18 flexible from 12                        name, versions, first flexible one
        throttle_time_ms    int32                   ignorable  in every version
        error_code          int16                   7-18       in some versions alone
        responses           []FetchableTopicResponse           a list of structs: its fields follow
            topic_id        uuid                    13-18
            aborted         []AbortedTransaction?              null is a value
            name            string?12-18                       null is a value in these versions
        node_endpoints      []NodeEndpoint          16-18 tag 0    a tagged field (KIP-482)
        leader_id           int32                   = -1       the default; else empty or zero

The fields of a struct are a named tuple, the same in all versions. A field that a version does not
have keeps its default; a list is None. An encoder raises if such a field has another value, which
would get lost, unless it is ``ignorable``. Error codes and times are numbers.
"""

from aioproducer.engine.protocol.apis import SUPPORTED, Api
from aioproducer.engine.protocol.schema import Schema, data_schema, request_schema, response_schema

__all__ = ["SUPPORTED", "Api", "Schema", "data_schema", "request_schema", "response_schema"]
