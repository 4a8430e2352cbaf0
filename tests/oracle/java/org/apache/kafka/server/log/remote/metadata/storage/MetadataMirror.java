package org.apache.kafka.server.log.remote.metadata.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A broker's view of partitions, from the values of records in __remote_log_metadata: Kafka's own serde reads them, and its
 * own RemoteLogMetadataCache applies them. It is in the package of that class, whose methods only that package may call.
 */
public final class MetadataMirror {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();

    private final Map<TopicIdPartition, RemoteLogMetadataCache> caches = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
    private final ArrayNode taken = MAPPER.createArrayNode();

    private MetadataMirror() { }

    /** For each topic, a list of values in hex: what its brokers do with each value, and what they then have of each partition. */
    public static ArrayNode topics(JsonNode topics) throws RemoteResourceNotFoundException {
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode values : topics) {
            MetadataMirror mirror = new MetadataMirror();
            for (JsonNode value : values) mirror.taken.add(mirror.apply(HexFormat.of().parseHex(value.asText())));
            ObjectNode views = MAPPER.createObjectNode();
            for (Map.Entry<TopicIdPartition, RemoteLogMetadataCache> partition : mirror.caches.entrySet())
                views.set(partition.getKey().toString(), view(partition.getValue()));
            answers.addObject().<ObjectNode>set("taken", mirror.taken).set("views", views);
        }
        return answers;
    }

    /** For each value in hex: what Kafka reads, and in hex what it writes for the same; null: its serde refuses the value. */
    public static ArrayNode events(JsonNode values) {
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode value : values) {
            try {
                answers.add(event(SERDE.deserialize(HexFormat.of().parseHex(value.asText()))));
            } catch (RuntimeException refused) {
                answers.addNull();
            }
        }
        return answers;
    }

    /** For each [topic id, partition, number of metadata partitions]: the metadata partition. */
    public static ArrayNode metadataPartitions(JsonNode asked) {
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode one : asked) {
            TopicIdPartition partition = new TopicIdPartition(Uuid.fromString(one.get(0).asText()), new TopicPartition("t", one.get(1).asInt()));
            answers.add(new RemoteLogMetadataTopicPartitioner(one.get(2).asInt()).metadataPartition(partition));
        }
        return answers;
    }

    /** As ConsumerTask and RemotePartitionMetadataStore do for a partition that the broker has. */
    private String apply(byte[] value) {
        try {
            RemoteLogMetadata event = SERDE.deserialize(value);
            RemoteLogMetadataCache cache = caches.computeIfAbsent(event.topicIdPartition(), partition -> new RemoteLogMetadataCache());
            RemoteLogSegmentId id;
            RemoteLogSegmentMetadata before;
            if (event instanceof RemoteLogSegmentMetadata added) {
                id = added.remoteLogSegmentId();
                before = cache.idToSegmentMetadata.get(id);
                cache.addCopyInProgressSegment(added);
            } else {
                RemoteLogSegmentMetadataUpdate update = (RemoteLogSegmentMetadataUpdate) event;
                id = update.remoteLogSegmentId();
                before = cache.idToSegmentMetadata.get(id);
                cache.updateRemoteLogSegmentMetadata(update);
            }
            return before == cache.idToSegmentMetadata.get(id) ? "dropped" : "applied";
        } catch (RemoteResourceNotFoundException unknown) {
            return "dropped";
        } catch (RuntimeException stops) {
            return "stops brokers";
        }
    }

    private static ObjectNode event(RemoteLogMetadata read) {
        if (read instanceof RemoteLogSegmentMetadata added) {
            ObjectNode answer = segment(added);
            return answer.put("api", 0).put("broker", added.brokerId()).put("event_ms", added.eventTimestampMs())
                .put("written", HexFormat.of().formatHex(SERDE.serialize(added)));
        }
        if (!(read instanceof RemoteLogSegmentMetadataUpdate update)) return MAPPER.createObjectNode();
        ObjectNode answer = named(update.remoteLogSegmentId());
        return answer.put("api", 1).put("broker", update.brokerId()).put("event_ms", update.eventTimestampMs())
            .put("custom", update.customMetadata().map(custom -> HexFormat.of().formatHex(custom.value())).orElse(null))
            .put("state", update.state().id()).put("written", HexFormat.of().formatHex(SERDE.serialize(update)));
    }

    private static ObjectNode named(RemoteLogSegmentId id) {
        TopicIdPartition partition = id.topicIdPartition();
        return MAPPER.createObjectNode().put("topic", partition.topic()).put("topic_id", partition.topicId().toString())
            .put("partition", partition.partition()).put("id", id.id().toString());
    }

    private static ObjectNode segment(RemoteLogSegmentMetadata segment) {
        ObjectNode answer = named(segment.remoteLogSegmentId());
        answer.put("start", segment.startOffset()).put("end", segment.endOffset()).put("max_ms", segment.maxTimestampMs())
            .put("size", segment.segmentSizeInBytes()).put("state", segment.state().id()).put("no_aborts", segment.isTxnIdxEmpty())
            .put("custom", segment.customMetadata().map(custom -> HexFormat.of().formatHex(custom.value())).orElse(null));
        ArrayNode epochs = answer.putArray("epochs");
        segment.segmentLeaderEpochs().forEach((epoch, start) -> epochs.addArray().add(epoch).add(start));
        return answer;
    }

    private static ObjectNode view(RemoteLogMetadataCache cache) {
        ObjectNode answer = MAPPER.createObjectNode();
        ArrayNode segments = answer.putArray("segments");
        TreeSet<Long> offsets = new TreeSet<>();
        for (Iterator<RemoteLogSegmentMetadata> all = cache.listAllRemoteLogSegments(); all.hasNext(); ) {
            RemoteLogSegmentMetadata segment = all.next();
            segments.add(segment(segment));
            for (long start : segment.segmentLeaderEpochs().values()) offsets.addAll(Arrays.asList(start - 1, start));
            offsets.addAll(Arrays.asList(segment.startOffset(), segment.endOffset(), segment.endOffset() + 1));
        }
        ObjectNode epochs = answer.putObject("epochs");
        cache.leaderEpochEntries.forEach((epoch, state) -> {
            ObjectNode entry = epochs.putObject(epoch.toString());
            ArrayNode referenced = entry.putArray("referenced");
            state.referencedSegmentIds().forEach(id -> referenced.add(id.id().toString()));
            ArrayNode unreferenced = entry.putArray("unreferenced");
            state.unreferencedSegmentIds().forEach(id -> unreferenced.add(id.id().toString()));
            ArrayNode lookUps = entry.putArray("look_ups");
            for (long offset : offsets) {
                String found = cache.remoteLogSegmentMetadata(epoch, offset).map(segment -> segment.remoteLogSegmentId().id().toString()).orElse(null);
                lookUps.addArray().add(offset).add(found);
            }
        });
        return answer;
    }
}
