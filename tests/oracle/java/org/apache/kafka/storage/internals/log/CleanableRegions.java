package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * Asks Kafka's LogCleanerManager where a log is dirty, how many bytes are, and how overdue they are. Reads the log in place.
 * Each case is [checkpoint, now, minimum lag, maximum lag]; a checkpoint of -1 means none.
 */
final class CleanableRegions {
    private CleanableRegions() { }

    static ArrayNode select(LabUtil.Args a) throws Exception {
        Path dir = a.path("dir");
        JsonNode cases = a.get("cases");
        long logStartOffset = a.num("log_start_offset", 0);
        a.finish();
        Map<String, Object> config = LabUtil.topicConfig(1L << 30, 86_400_000L, true, "CreateTime");
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler();
        UnifiedLog log = LabUtil.open(dir.toFile(), config, new LabUtil.ManualTime(0), scheduler, logStartOffset, 86_400_000, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Method delay = LogCleanerManager.class.getDeclaredMethod("maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        delay.setAccessible(true);
        ArrayNode answers = LabUtil.MAPPER.createArrayNode();
        for (JsonNode asked : cases) {
            long checkpoint = asked.get(0).asLong();
            long now = asked.get(1).asLong();
            config.put("min.compaction.lag.ms", asked.get(2).asLong());
            config.put("max.compaction.lag.ms", asked.get(3).asLong());
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
