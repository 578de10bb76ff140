"""Kafka's hash of keys as an expression of Spark Classic, so that no Python worker has to run.

Spark comes with Commons Codec, whose ``MurmurHash2`` has the algorithm and the seed of Kafka's
``Utils.murmur2``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import octet_length

_HASH: Final = "org.apache.commons.codec.digest.MurmurHash2"
_KNOWN: Final = (b"foobar", -790332482)
"""A key and its hash. Source: Kafka's ``UtilsTest.testMurmur2``."""


def jvm_murmur2(spark: SparkSession, key: Column) -> Column | None:
    """The hash of a binary column as an int, null for a null; None: this Spark can't compute it.

    Spark Connect has no such expressions, and other versions of Spark may have other methods.
    """
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    try:
        if not _is_kafkas(attrgetter(_HASH)(context._jvm)):
            return None
        return _static_call(context._jvm, [key, octet_length(key)])
    except (Py4JError, TypeError, ImportError):  # a class that does not exist can't be called
        return None


def _is_kafkas(java_class: Any) -> bool:
    key, hashed = _KNOWN
    return bool(java_class.hash32(key, len(key)) == hashed)


def _static_call(jvm: Any, arguments: list[Any]) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    sql = jvm.org.apache.spark.sql
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    call = sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(_HASH),
        sql.types.DataType.fromDDL("int"),
        "hash32",
        to_seq([sql.classic.ExpressionUtils.expression(each._jc) for each in arguments]),
        to_seq([]),  # the types are those of the arguments
        True,  # a null has no hash,
        True,  # and nothing else is null
        True,  # deterministic
        jvm.scala.Option.empty(),
    )
    return ClassicColumn(sql.classic.ExpressionUtils.column(call))
