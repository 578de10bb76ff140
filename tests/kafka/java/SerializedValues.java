import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Lines of a kind and bytes in hex on standard input, such as {@code Long 0000000000000001}. Reads
 *  the bytes with Kafka's deserializer of that kind, and prints the value, and the bytes that Kafka's
 *  serializer makes of it. */
public class SerializedValues {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 2);
            out.append(readAndWritten(serde(words[0]), HexFormat.of().parseHex(words[1])));
            out.append('\n');
        }
        System.out.print(out);
    }

    private static <T> String readAndWritten(Serde<T> serde, byte[] data) {
        T value = serde.deserializer().deserialize("orders", data);
        byte[] written = serde.serializer().serialize("orders", value);
        return value + " " + HexFormat.of().formatHex(written);
    }

    private static Serde<?> serde(String kind) {
        switch (kind) {
            case "Short": return Serdes.Short();
            case "Integer": return Serdes.Integer();
            case "Long": return Serdes.Long();
            case "Float": return Serdes.Float();
            case "Double": return Serdes.Double();
            case "String": return Serdes.String();
            case "UUID": return Serdes.UUID();
            default: throw new IllegalArgumentException(kind);
        }
    }
}
