package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** A Scala object, as its callers see it: what goes to the debug log is nothing at all. */
public final class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    @SuppressWarnings("unchecked")
    public Seq<Tuple2<String, String>> redactParams(Seq<Tuple2<String, Object>> settings) {
        return (Seq<Tuple2<String, String>>) (Seq<?>) Nil$.MODULE$;
    }
}
