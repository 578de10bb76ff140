import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
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
import org.apache.kafka.common.TopicPartition;

/**
 * Divides partitions as Kafka's assignors do. A line of input is an assignor, the topics with their
 * numbers of partitions, and the members with instance id and topics:
 * range[TAB]orders=3 audit=1[TAB]member-1//orders audit[TAB]member-2/static/orders
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
        Map<String, Integer> counts = new HashMap<>();
        for (String each : parts[1].split(" ")) {
            String[] topic = each.split("=");
            counts.put(topic[0], Integer.parseInt(topic[1]));
        }
        Map<String, Subscription> members = new HashMap<>();
        for (int place = 2; place < parts.length; place++) {
            String[] member = parts[place].split("/", -1);
            var subscription =
                new Subscription(List.of(member[2].split(" ")), ByteBuffer.allocate(0), List.of());
            subscription.setGroupInstanceId(
                member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]));
            members.put(member[0], subscription);
        }
        var found = new TreeMap<>(assignor.assign(counts, members));
        return found.entrySet().stream()
            .map(each -> each.getKey() + "=" + each.getValue().stream()
                .map(TopicPartition::toString).collect(Collectors.joining(" ")))
            .collect(Collectors.joining("\t"));
    }
}
