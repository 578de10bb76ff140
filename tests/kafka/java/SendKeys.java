import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Keys in hex on standard input, one a line; arguments: bootstrap servers, topic. Sends a record
 *  for each key with Kafka's own producer and prints the partition that it went to. */
public class SendKeys {
    public static void main(String[] arguments) throws Exception {
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        Map<String, Object> config = Map.of("bootstrap.servers", arguments[0]);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            for (String line = keys.readLine(); line != null; line = keys.readLine()) {
                byte[] key = HexFormat.of().parseHex(line);
                sent.add(producer.send(new ProducerRecord<>(arguments[1], key, new byte[0])));
            }
            for (Future<RecordMetadata> each : sent) {
                System.out.println(each.get().partition());
            }
        }
    }
}
