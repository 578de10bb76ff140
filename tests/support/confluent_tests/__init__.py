"""confluent-kafka's own tests of its producer, run with ours behind the same names.

::

    make confluent-tests CONFLUENT_TESTS=/path/to/a/checkout/of/confluent-kafka-python

The checkout stays outside of this repository: its tests are copied into a temporary folder. They
run twice, with confluent-kafka's producer and with ours, and need no broker. Each test that fails
with ours must have a reason in :mod:`tests.support.confluent_tests.differences`. The example
programs of :mod:`tests.support.confluent_tests.examples` run twice as well, on a Kafka and with a
schema registry. The whole takes about five minutes.
"""
