import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A Kafka Streams application whose table is a topic, and whose changelog is that topic, too. It begins without local state, goes on
 * until it has committed the topic's end, and prints one line of JSON: the table, and how it was restored.
 *
 * <p>Arguments: bootstrap servers, topic, offset of the end, folder for local state.
 */
public final class TableApplication {
    private static final Duration LONGEST = Duration.ofSeconds(60);

    private TableApplication() { }

    /** A restore that was begun, and how many records it had taken when it ended; -1: it has not. */
    private record Restore(long start, long end, long[] records) { }

    public static void main(String[] args) throws InterruptedException {
        TopicPartition partition = new TopicPartition(args[1], 0);
        long end = Long.parseLong(args[2]);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "table-of-" + args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        // Otherwise Streams would write a changelog of its own.
        config.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(args[1], Consumed.with(Serdes.String(), Serdes.String()),
            Materialized.as(Stores.inMemoryKeyValueStore("table")));
        List<Restore> restores = new CopyOnWriteArrayList<>();
        List<String> errors = new CopyOnWriteArrayList<>();
        try (KafkaStreams streams = new KafkaStreams(builder.build(config), config)) {
            streams.cleanUp();
            streams.setGlobalStateRestoreListener(listener(restores));
            streams.setUncaughtExceptionHandler(error -> {
                errors.add(error.toString());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            long deadline = System.nanoTime() + LONGEST.toNanos();
            while (errors.isEmpty() && !hasCommitted(streams, partition, end)) {
                if (System.nanoTime() > deadline) errors.add("the end was not committed within " + LONGEST);
                Thread.sleep(50);
            }
            System.out.println(result(streams, restores, errors));
        }
    }

    private static boolean hasCommitted(KafkaStreams streams, TopicPartition partition, long end) {
        return streams.state() == KafkaStreams.State.RUNNING && streams.metadataForLocalThreads().stream()
            .flatMap(thread -> thread.activeTasks().stream())
            .anyMatch(task -> task.committedOffsets().getOrDefault(partition, -1L) >= end);
    }

    private static StateRestoreListener listener(List<Restore> restores) {
        return new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
                restores.add(new Restore(start, end, new long[] {-1}));
            }

            @Override
            public void onBatchRestored(TopicPartition partition, String store, long last, long records) { }

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long records) {
                restores.get(restores.size() - 1).records()[0] = records;
            }
        };
    }

    private static ObjectNode result(KafkaStreams streams, List<Restore> restores, List<String> errors) {
        ObjectNode result = new ObjectMapper().createObjectNode();
        ObjectNode table = result.putObject("table");
        if (errors.isEmpty()) {
            StoreQueryParameters<org.apache.kafka.streams.state.ReadOnlyKeyValueStore<String, String>> query =
                StoreQueryParameters.fromNameAndType("table", QueryableStoreTypes.keyValueStore());
            try (KeyValueIterator<String, String> entries = streams.store(query).all()) {
                entries.forEachRemaining(entry -> table.put(entry.key, entry.value));
            }
        }
        ArrayNode restored = result.putArray("restores");
        for (Restore restore : restores) restored.addArray().add(restore.start()).add(restore.end()).add(restore.records()[0]);
        ArrayNode errorTexts = result.putArray("errors");
        errors.forEach(errorTexts::add);
        return result;
    }
}
