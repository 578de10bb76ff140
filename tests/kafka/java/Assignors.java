import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Divides partitions as Kafka's assignors do. A line of input is an assignor, the topics with the racks
 * of each partition's replicas, and the members with instance id, topics and rack:
 * range[TAB]orders=a,b;b,c;a audit=;[TAB]member-1//orders audit/a[TAB]member-2/static/orders/
 * A line of output has the partitions of each member: member-1=orders-0 audit-0[TAB]member-2=orders-1
 */
public class Assignors {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.append(assigned(line.split("\t"))).append('\n');
        }
        System.out.write(output.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String assigned(String[] parts) {
        AbstractPartitionAssignor assignor =
            parts[0].equals("range") ? new RangeAssignor() : new RoundRobinAssignor();
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        for (String each : parts[1].split(" ")) {
            String[] topic = each.split("=", -1);
            List<PartitionInfo> partitions = new ArrayList<>();
            String[] racks = topic[1].split(";", -1);
            for (int number = 0; number < racks.length - 1; number++) {
                Node[] replicas = racks[number].isEmpty() ? new Node[0]
                    : Arrays.stream(racks[number].split(","))
                        .map(rack -> new Node(1, "host", 9092, rack)).toArray(Node[]::new);
                partitions.add(new PartitionInfo(topic[0], number, null, replicas, replicas));
            }
            topics.put(topic[0], partitions);
        }
        Map<String, Subscription> members = new HashMap<>();
        for (int place = 2; place < parts.length; place++) {
            String[] member = parts[place].split("/", -1);
            var subscription = new Subscription(
                List.of(member[2].split(" ")), ByteBuffer.allocate(0), List.of(), -1,
                member[3].isEmpty() ? Optional.empty() : Optional.of(member[3]));
            subscription.setGroupInstanceId(
                member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]));
            members.put(member[0], subscription);
        }
        var found = new TreeMap<>(assignor.assignPartitions(topics, members));
        return found.entrySet().stream()
            .map(each -> each.getKey() + "=" + each.getValue().stream()
                .map(TopicPartition::toString).collect(Collectors.joining(" ")))
            .collect(Collectors.joining("\t"));
    }
}
