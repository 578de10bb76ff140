"""Where Spark looks for the data source ``aioproducer``: in modules whose name begins so.

An error here would lose the data sources of all such modules.
"""

import logging

try:
    from aioproducer.spark.source import KafkaDataSource as DefaultSource
except Exception as error:  # whatever it is
    logging.getLogger(__name__).warning("there is no format 'aioproducer': %s", error)
else:
    __all__ = ["DefaultSource"]
