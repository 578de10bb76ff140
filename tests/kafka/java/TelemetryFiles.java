import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** A metrics reporter of brokers: the metrics of clients become files, which the broker has
 *  decompressed. The name of a file is number, client instance id, "last" or "more", and the client
 *  id, with commas between. */
public class TelemetryFiles implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private final AtomicInteger count = new AtomicInteger();
    private Path directory;

    @Override
    public void configure(Map<String, ?> config) {
        directory = Path.of((String) config.get("telemetry.files"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        String name = String.join(",",
            String.format("%06d", count.incrementAndGet()),
            payload.clientInstanceId().toString(),
            payload.isTerminating() ? "last" : "more",
            context.clientId());
        ByteBuffer data = payload.data();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        try {
            Path hidden = directory.resolve("." + name);
            Files.write(hidden, bytes);
            Files.move(hidden, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
