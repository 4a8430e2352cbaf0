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
 * partition, start offset and segment id. Each object is written to --out under its suffix.
 */
final class TierReader {
    private static final Map<IndexType, String> SUFFIXES = Map.of(IndexType.OFFSET, "index", IndexType.TIMESTAMP, "timeindex",
        IndexType.PRODUCER_SNAPSHOT, "snapshot", IndexType.LEADER_EPOCH, "leader_epoch_checkpoint", IndexType.TRANSACTION, "txnindex");

    private TierReader() { }

    static JsonNode fetch(LabUtil.Args a) throws Exception {
        String tier = a.need("tier");
        Path out = Files.createDirectories(Path.of(a.need("out")));
        RemoteLogSegmentMetadata segment = metadata(a);
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

    private static RemoteLogSegmentMetadata metadata(LabUtil.Args a) {
        Map<Integer, Long> epochs = new HashMap<>();
        for (String pair : a.need("epochs").split(",")) {
            String[] p = pair.split(":");
            epochs.put(Integer.parseInt(p[0]), Long.parseLong(p[1]));
        }
        TopicPartition partition = new TopicPartition(a.need("topic"), a.intg("partition", 0));
        RemoteLogSegmentId id = new RemoteLogSegmentId(new TopicIdPartition(Uuid.fromString(a.need("topic-id")), partition),
            Uuid.fromString(a.need("segment-id")));
        return new RemoteLogSegmentMetadata(id, a.num("start-offset", 0), a.num("end-offset", 0), a.num("max-timestamp-ms", -1), 1,
            0, a.intg("size-bytes", 0), epochs);
    }
}
