import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

import com.sun.management.OperatingSystemMXBean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The loop of client.py with Kafka's own producer. Arguments: topic, transactions, warm-up, records
 *  in each, bytes of a value, over how many partitions in turn (0: its partitioner chooses), and the
 *  producer's options as name=value. Prints the same JSON. */
public class TransactionLoop {
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final byte[][] values;
    private final int partitions;

    private TransactionLoop(
            KafkaProducer<byte[], byte[]> producer, String topic, byte[][] values, int partitions) {
        this.producer = producer;
        this.topic = topic;
        this.values = values;
        this.partitions = partitions;
    }

    private long[] run(int transactions) {
        long[] latencies = new long[transactions];
        for (int number = 0; number < transactions; number++) {
            long began = System.nanoTime();
            producer.beginTransaction();
            for (int each = 0; each < values.length; each++) {
                Integer partition = partitions == 0 ? null : (number + each) % partitions;
                producer.send(new ProducerRecord<>(topic, partition, null, values[each]));
            }
            producer.commitTransaction();
            latencies[number] = System.nanoTime() - began;
        }
        return latencies;
    }

    public static void main(String[] arguments) {
        byte[][] values = new byte[Integer.parseInt(arguments[3])][];
        for (int number = 0; number < values.length; number++) {
            String value = String.format("%0" + arguments[4] + "d", number);
            values[number] = value.getBytes(StandardCharsets.US_ASCII);
        }
        Map<String, Object> config = new HashMap<>();
        for (String option : Arrays.asList(arguments).subList(6, arguments.length)) {
            String[] pair = option.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        OperatingSystemMXBean process =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            TransactionLoop loop =
                    new TransactionLoop(
                            producer, arguments[0], values, Integer.parseInt(arguments[5]));
            producer.initTransactions();
            loop.run(Integer.parseInt(arguments[2]));
            System.gc();
            long cpu = process.getProcessCpuTime();
            long began = System.nanoTime();
            long[] latencies = loop.run(Integer.parseInt(arguments[1]));
            double seconds = (System.nanoTime() - began) / 1e9;
            double used = (process.getProcessCpuTime() - cpu) / 1e9;
            System.out.printf(
                    "{\"seconds\": %s, \"cpu_seconds\": %s, \"latencies_ns\": %s}%n",
                    seconds, used, Arrays.toString(latencies));
        }
    }
}
