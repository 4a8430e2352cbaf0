package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Fetches a segment's objects from a tier as a broker does: Kafka's own LocalTieredStorage finds them by topic id,
 * partition, start offset and segment id. Writes each object to the folder out, with its suffix as the name.
 */
final class TierReader {
    private static final Map<IndexType, String> SUFFIXES = Map.of(IndexType.OFFSET, "index", IndexType.TIMESTAMP, "timeindex",
        IndexType.PRODUCER_SNAPSHOT, "snapshot", IndexType.LEADER_EPOCH, "leader_epoch_checkpoint", IndexType.TRANSACTION, "txnindex");

    private TierReader() { }

    static JsonNode fetch(LabUtil.Args a) throws Exception {
        String tier = a.path("tier").toString();
        Path out = Files.createDirectories(a.path("out"));
        RemoteLogSegmentMetadata segment = metadata(a.get("partition"), a.get("segment"));
        a.finish();
        LocalTieredStorage storage = new LocalTieredStorage();
        storage.configure(Map.of(LocalTieredStorage.STORAGE_DIR_CONFIG, tier, LocalTieredStorage.BROKER_ID, 1));
        try (InputStream log = storage.fetchLogSegment(segment, 0)) {
            Files.copy(log, out.resolve("log"));
        }
        for (Map.Entry<IndexType, String> part : SUFFIXES.entrySet()) {
            try (InputStream index = storage.fetchIndex(segment, part.getKey())) {
                Files.copy(index, out.resolve(part.getValue()));
            } catch (RemoteResourceNotFoundException absent) {
                // A segment without aborted transactions has no transaction index.
                if (part.getKey() != IndexType.TRANSACTION) throw absent;
            }
        }
        return null;
    }

    /** The metadata of a segment, from the entry of its partition in `tierfold status` and its own. */
    private static RemoteLogSegmentMetadata metadata(JsonNode of, JsonNode segment) {
        Map<Integer, Long> epochs = new HashMap<>();
        for (JsonNode epoch : segment.get("leader_epochs")) epochs.put(epoch.get("epoch").asInt(), epoch.get("start_offset").asLong());
        TopicPartition partition = new TopicPartition(of.get("topic").asText(), of.get("partition").asInt());
        RemoteLogSegmentId id = new RemoteLogSegmentId(
            new TopicIdPartition(Uuid.fromString(of.get("topic_id").asText()), partition), Uuid.fromString(segment.get("id").asText()));
        return new RemoteLogSegmentMetadata(id, segment.get("start_offset").asLong(), segment.get("end_offset").asLong(),
            segment.get("max_timestamp_ms").asLong(), 1, 0, segment.get("size_bytes").asInt(), epochs);
    }
}
