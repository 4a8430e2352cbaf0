package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Writes a log anew as a follower does, which rolls where it likes: the same batches in other segments, with the indexes,
 * transaction indexes and producer snapshots that Kafka writes there. --roll-at OFFSET,... names the borders, each one the
 * base offset of a batch or the end of the log. Prints the base offsets of the segments.
 */
public final class LogReplica {
    private LogReplica() { }

    public static void main(String[] argv) throws Exception {
        LabUtil.Args a = new LabUtil.Args(argv);
        Path in = Path.of(a.need("in"));
        Path out = Path.of(a.need("out"));
        Set<Long> borders = Arrays.stream(a.need("roll-at").split(",")).map(Long::parseLong).collect(Collectors.toSet());
        a.finish();
        LabUtil.checkPartitionDirName(out.toFile());
        LabUtil.deleteTree(out);
        Files.createDirectories(out);
        var config = LabUtil.topicConfig(1L << 30, 10 << 20, 4096, 4 << 20, 86_400_000L, false, "CreateTime", Long.MAX_VALUE);
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler(true);
        UnifiedLog log = LabUtil.open(out.toFile(), config, new LabUtil.ManualTime(0), scheduler, 0, Integer.MAX_VALUE, true,
                Optional.empty());
        for (File each : segments(in)) {
            try (FileRecords records = FileRecords.open(each, false)) {
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
        log.activeSegment().offsetIndex();  // index files come into being on first use
        log.activeSegment().timeIndex();
        LabUtil.Json j = new LabUtil.Json();
        j.open('[');
        for (LogSegment segment : log.logSegments()) j.val(segment.baseOffset());
        log.close();
        System.out.println(j.close(']').sb);
    }

    private static void rollAt(UnifiedLog log, Set<Long> borders) throws Exception {
        if (log.activeSegment().size() > 0 && borders.contains(log.logEndOffset())) log.roll();
    }

    /** An append of magic 0 or 1 makes Kafka forget all leader epochs; the log that is copied knows them. */
    private static void restoreEpochs(UnifiedLog log, Path checkpoint) throws Exception {
        log.leaderEpochCache().clearAndFlush();
        List<String> lines = Files.readAllLines(checkpoint);
        for (String line : lines.subList(2, lines.size())) {
            String[] entry = line.split(" ");
            log.leaderEpochCache().assign(Integer.parseInt(entry[0]), Long.parseLong(entry[1]));
        }
    }

    private static List<File> segments(Path folder) throws Exception {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(f -> f.toString().endsWith(".log")).sorted().map(Path::toFile).toList();
        }
    }
}
