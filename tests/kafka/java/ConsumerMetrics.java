import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Arguments: bootstrap servers, topic, number of records, group. Reads them with Kafka's own consumer,
 *  commits them, and prints its client instance id. */
public class ConsumerMetrics {
    public static void main(String[] arguments) throws Exception {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        Map<String, Object> config = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[3],
            "client.id", arguments[3],
            "auto.offset.reset", "earliest");
        int left = Integer.parseInt(arguments[2]);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[1]));
            while (left > 0) {
                left -= consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
            System.out.println(consumer.clientInstanceId(Duration.ofSeconds(30)));
        }
    }
}
