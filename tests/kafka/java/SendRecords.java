import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records on standard input, one a line: timestamp, key, value, and names and values of headers,
 *  with tabs between; bytes are in hex, null is "-". Arguments: bootstrap servers, topic,
 *  compression, and the ends of transactions, "commit" or "abort", that send all records each. */
public class SendRecords {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            List<Header> headers = new ArrayList<>();
            for (int place = 3; place < fields.length; place += 2) {
                String name = new String(bytes(fields[place]), "UTF-8");
                headers.add(new RecordHeader(name, bytes(fields[place + 1])));
            }
            Long timestamp = Long.valueOf(fields[0]);
            records.add(new ProducerRecord<>(
                arguments[1], 0, timestamp, bytes(fields[1]), bytes(fields[2]), headers));
        }
        Map<String, Object> config = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0],
            "compression.type", arguments[2],
            "linger.ms", 100,
            "batch.size", 100_000));
        if (arguments.length > 3) {
            config.put("transactional.id", arguments[1]);
        }
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(config, serializer, serializer)) {
            if (arguments.length == 3) {
                records.forEach(producer::send);
                return;
            }
            producer.initTransactions();
            for (int place = 3; place < arguments.length; place++) {
                producer.beginTransaction();
                records.forEach(producer::send);
                producer.flush();
                if (arguments[place].equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HexFormat.of().parseHex(hex);
    }
}
