import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Messages on standard input, one a line: the number of the API (-1: what consumers tell each other),
 *  "request" or "response" ("assignment" or "subscription"), the version, the bytes in hex. Reads each by Kafka's own class, and prints
 *  the bytes that the class writes; "!" and the error if it can't read them or leaves bytes over. */
public class ReadMessages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                Message message = message(Short.parseShort(words[0]), words[1]);
                short version = Short.parseShort(words[2]);
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining()) {
                    throw new IllegalStateException(bytes.remaining() + " bytes are left over");
                }
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
                message.write(new ByteBufferAccessor(written), cache, version);
                out.append(HexFormat.of().formatHex(written.array()));
            } catch (RuntimeException error) {
                out.append('!').append(error);
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static Message message(short api, String kind) {
        if (api < 0) {
            return kind.equals("assignment")
                ? new ConsumerProtocolAssignment() : new ConsumerProtocolSubscription();
        }
        ApiMessageType type = ApiMessageType.fromApiKey(api);
        return kind.equals("request") ? type.newRequest() : type.newResponse();
    }
}
