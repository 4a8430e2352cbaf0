package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;

/** Reads one partition of a running cluster with Java's consumer, without a group. */
final class ConsumerReads {
    private ConsumerReads() { }

    /**
     * From each start to the end: the records, and in `stopped` why the consumer did not get to the end, else null. The end is
     * the high watermark, or the last stable offset.
     */
    static ArrayNode read(LabUtil.Args a) {
        TopicPartition partition = partition(a);
        JsonNode starts = a.get("starts");
        long stuckMs = a.num("stuck_ms", 10_000);
        ArrayNode found = LabUtil.MAPPER.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(a)) {
            consumer.assign(List.of(partition));
            for (JsonNode start : starts) {
                ObjectNode j = found.addObject();
                ArrayNode records = j.putArray("records");
                j.put("stopped", readFrom(consumer, partition, start.asLong(), stuckMs, records));
            }
        }
        return found;
    }

    /** The offset that the consumer finds for each time; null: none. */
    static ArrayNode offsetsForTimes(LabUtil.Args a) {
        TopicPartition partition = partition(a);
        JsonNode times = a.get("times");
        ArrayNode found = LabUtil.MAPPER.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(a)) {
            for (JsonNode time : times) {
                OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, time.asLong())).get(partition);
                found.add(at == null ? null : (Long) at.offset());
            }
        }
        return found;
    }

    private static TopicPartition partition(LabUtil.Args a) {
        return new TopicPartition(a.str("topic", ""), a.intg("partition", 0));
    }

    private static KafkaConsumer<byte[], byte[]> consumer(LabUtil.Args a) {
        Map<String, Object> config = Map.of("bootstrap.servers", a.str("servers", ""), "auto.offset.reset", "none",
            "isolation.level", a.str("isolation", "read_uncommitted"), "enable.auto.commit", "false", "fetch.max.wait.ms", "50",
            "max.poll.records", "10000", "default.api.timeout.ms", "20000");
        a.finish();
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static String readFrom(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long start, long stuckMs,
                                   ArrayNode records) {
        try {
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seek(partition, start);
            long movedAt = System.nanoTime();
            for (long position = start; position < end; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) add(records, record);
                long before = position;
                position = consumer.position(partition);
                if (position != before) movedAt = System.nanoTime();
                if (System.nanoTime() - movedAt > stuckMs * 1_000_000L) return "stuck at " + position;
            }
            return null;
        } catch (KafkaException | IllegalStateException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    /** Adds [offset, timestamp, key, checksum of the value, headers], as LogDump writes them. */
    private static void add(ArrayNode records, ConsumerRecord<byte[], byte[]> record) {
        String checksum = null;
        if (record.value() != null) {
            CRC32 crc = new CRC32();
            crc.update(record.value());
            checksum = String.format("%08x", crc.getValue());
        }
        ArrayNode headers = records.addArray().add(record.offset()).add(record.timestamp()).add(hex(record.key())).add(checksum).addArray();
        for (Header header : record.headers()) headers.addArray().add(header.key()).add(hex(header.value()));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
