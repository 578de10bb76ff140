import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Future;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Arguments: bootstrap servers, topic, number of records. Sends them one by one with Kafka's own
 *  producer, and prints its client instance id. The last record is not waited for: with nothing left
 *  to send, this producer may end without its last push. */
public class PushMetrics {
    public static void main(String[] arguments) throws Exception {
        ByteArraySerializer bytes = new ByteArraySerializer();
        Map<String, Object> config = Map.of("bootstrap.servers", arguments[0]);
        int records = Integer.parseInt(arguments[2]);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            Uuid id = producer.clientInstanceId(Duration.ofSeconds(30));
            System.out.println(id);
            for (int count = 1; count <= records; count++) {
                Future<RecordMetadata> sent =
                    producer.send(new ProducerRecord<>(arguments[1], new byte[10]));
                if (count < records) {
                    sent.get();
                }
            }
        }
    }
}
