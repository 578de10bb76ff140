import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Keys in hex on standard input, one a line; arguments: numbers of partitions. Prints for each key
 *  its partition among each number of partitions. */
public class PartitionOf {
    public static void main(String[] counts) throws Exception {
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = keys.readLine(); line != null; line = keys.readLine()) {
            byte[] key = HexFormat.of().parseHex(line);
            for (String count : counts) {
                out.append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(count)));
                out.append(' ');
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
