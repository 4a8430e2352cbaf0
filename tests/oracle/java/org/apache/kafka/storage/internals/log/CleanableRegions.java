package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.node.ArrayNode;

import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * Asks Kafka's LogCleanerManager where a log is dirty, how much of it is dirty, and how overdue it is.
 * --cases CHECKPOINT:NOW:MIN_LAG:MAX_LAG,... with checkpoint -1 for none. The log is not copied.
 */
final class CleanableRegions {
    private CleanableRegions() { }

    static ArrayNode select(LabUtil.Args a) throws Exception {
        Path dir = Path.of(a.need("dir"));
        String cases = a.need("cases");
        long logStartOffset = a.num("log-start-offset", 0);
        a.finish();
        Map<String, Object> config = LabUtil.topicConfig(1L << 30, 86_400_000L, true, "CreateTime");
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler();
        UnifiedLog log = LabUtil.open(dir.toFile(), config, new LabUtil.ManualTime(0), scheduler, logStartOffset, 86_400_000, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Method delay = LogCleanerManager.class.getDeclaredMethod("maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        delay.setAccessible(true);
        ArrayNode answers = LabUtil.MAPPER.createArrayNode();
        for (String asked : cases.split(",")) {
            String[] fields = asked.split(":");
            long checkpoint = Long.parseLong(fields[0]);
            long now = Long.parseLong(fields[1]);
            config.put("min.compaction.lag.ms", Long.parseLong(fields[2]));
            config.put("max.compaction.lag.ms", Long.parseLong(fields[3]));
            log.updateConfig(new LogConfig(config));
            LogCleanerManager.OffsetsToClean offsets =
                LogCleanerManager.cleanableOffsets(log, checkpoint < 0 ? Optional.empty() : Optional.of(checkpoint), now);
            long firstDirty = offsets.firstDirtyOffset();
            long end = offsets.firstUncleanableDirtyOffset();
            Map.Entry<Long, Long> bytes = LogCleanerManager.calculateCleanableBytes(log, firstDirty, end);
            answers.addObject().put("firstDirtyOffset", firstDirty).put("forceUpdateCheckpoint", offsets.forceUpdateCheckpoint())
                .put("firstUncleanableOffset", bytes.getKey()).put("cleanableBytes", bytes.getValue())
                .put("cleanBytes", new LogToClean(log, firstDirty, end, false).cleanBytes())
                .put("maxCompactionDelayMs", (Long) delay.invoke(null, log, firstDirty, now))
                .put("activeSegmentBase", log.activeSegment().baseOffset());
        }
        log.close();
        scheduler.drain();
        return answers;
    }
}
