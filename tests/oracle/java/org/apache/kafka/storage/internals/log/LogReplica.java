package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Copies a log as a follower does, with other segment borders: the batches are the same, and Kafka writes the indexes,
 * transaction indexes and producer snapshots that belong to them. roll_at has the borders, each the base offset of a batch
 * or the end of the log. Returns the base offsets of the segments.
 */
final class LogReplica {
    private LogReplica() { }

    static ArrayNode replicate(LabUtil.Args a) throws Exception {
        Path in = a.path("in");
        Path out = a.path("out");
        Set<Long> borders = new HashSet<>();
        for (JsonNode border : a.get("roll_at")) borders.add(border.asLong());
        a.finish();
        LabUtil.deletePartition(out);
        Files.createDirectories(out);
        var config = LabUtil.topicConfig(1L << 30, 86_400_000L, false, "CreateTime");
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler();
        UnifiedLog log = LabUtil.open(out.toFile(), config, new LabUtil.ManualTime(0), scheduler, 0, Integer.MAX_VALUE, Optional.empty());
        for (Path file : LabUtil.files(in)) {
            if (!file.toString().endsWith(".log")) continue;
            try (FileRecords records = FileRecords.open(file.toFile(), false)) {
                for (FileLogInputStream.FileChannelRecordBatch batch : records.batches()) {
                    rollAt(log, borders);
                    ByteBuffer bytes = ByteBuffer.allocate(batch.sizeInBytes());
                    records.channel().read(bytes, batch.position());
                    log.appendAsFollower(MemoryRecords.readableRecords(bytes.flip()), Integer.MAX_VALUE);
                    log.updateHighWatermark(log.logEndOffset());
                }
            }
        }
        rollAt(log, borders);
        restoreEpochs(log, in.resolve("leader-epoch-checkpoint"));
        scheduler.drain();
        LabUtil.createIndexes(log);
        ArrayNode bases = LabUtil.MAPPER.createArrayNode();
        for (LogSegment segment : log.logSegments()) bases.add(segment.baseOffset());
        log.close();
        return bases;
    }

    private static void rollAt(UnifiedLog log, Set<Long> borders) throws Exception {
        if (log.activeSegment().size() > 0 && borders.contains(log.logEndOffset())) log.roll();
    }

    /** Copies the leader epochs from the source, since an append of magic 0 or 1 clears them. */
    private static void restoreEpochs(UnifiedLog log, Path checkpoint) throws Exception {
        log.leaderEpochCache().clearAndFlush();
        List<String> lines = Files.readAllLines(checkpoint);
        for (String line : lines.subList(2, lines.size())) {
            String[] entry = line.split(" ");
            log.leaderEpochCache().assign(Integer.parseInt(entry[0]), Long.parseLong(entry[1]));
        }
    }
}
