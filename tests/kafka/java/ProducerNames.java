import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the public names of Kafka's producer: its options, its methods, the classes of its package. */
public class ProducerNames {
    public static void main(String[] arguments) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String option : ProducerConfig.configNames()) {
            names.add("option " + option);
        }
        for (Class<?> kind : new Class<?>[] {Producer.class, KafkaProducer.class}) {
            for (Method method : kind.getDeclaredMethods()) {
                if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic()) {
                    names.add("method " + method.getName());
                }
            }
        }
        String place = Producer.class.getPackageName().replace('.', '/') + "/";
        String jar = Producer.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        try (JarFile file = new JarFile(new File(jar))) {
            file.stream().map(entry -> entry.getName()).forEach(name -> {
                String rest = name.startsWith(place) ? name.substring(place.length()) : "/";
                if (rest.endsWith(".class") && !rest.contains("/")) {
                    add(names, place.replace('/', '.') + rest.substring(0, rest.length() - 6));
                }
            });
        }
        names.forEach(System.out::println);
    }

    private static void add(TreeSet<String> names, String name) {
        try {
            Class<?> found = Class.forName(name, false, Producer.class.getClassLoader());
            if (Modifier.isPublic(found.getModifiers())) {
                names.add("class " + found.getSimpleName());
            }
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }
}
