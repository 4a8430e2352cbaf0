package org.apache.kafka.storage.internals.log;

import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Asks Kafka's LogCleanerManager where a log is dirty, how much of it, and how overdue, and prints one JSON object per case.
 * --cases CHECKPOINT:NOW:MIN_LAG:MAX_LAG,... with checkpoint -1 for none. The log is opened where it lies, with a hand-set clock.
 */
public final class CleanableRegions {
    private CleanableRegions() { }

    public static void main(String[] argv) throws Exception {
        LabUtil.Args a = new LabUtil.Args(argv);
        Path dir = Path.of(a.need("dir"));
        String cases = a.need("cases");
        long logStartOffset = a.num("log-start-offset", 0);
        a.finish();
        Map<String, Object> config = LabUtil.topicConfig(1L << 30, 10 << 20, 4096, 1048588, 86_400_000L, true, "CreateTime", Long.MAX_VALUE);
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler(false);
        UnifiedLog log = LabUtil.open(dir.toFile(), config, new LabUtil.ManualTime(0), scheduler, logStartOffset, 86_400_000, true,
                Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Method delay = LogCleanerManager.class.getDeclaredMethod("maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        delay.setAccessible(true);
        LabUtil.Json j = new LabUtil.Json();
        j.open('[');
        for (String each : cases.split(",")) {
            String[] fields = each.split(":");
            long checkpoint = Long.parseLong(fields[0]);
            long now = Long.parseLong(fields[1]);
            Map<String, Object> lags = new HashMap<>(config);
            lags.put("min.compaction.lag.ms", Long.parseLong(fields[2]));
            lags.put("max.compaction.lag.ms", Long.parseLong(fields[3]));
            log.updateConfig(new LogConfig(lags));
            LogCleanerManager.OffsetsToClean offsets =
                    LogCleanerManager.cleanableOffsets(log, checkpoint < 0 ? Optional.empty() : Optional.of(checkpoint), now);
            long firstDirty = offsets.firstDirtyOffset();
            Map.Entry<Long, Long> bytes =
                    LogCleanerManager.calculateCleanableBytes(log, firstDirty, offsets.firstUncleanableDirtyOffset());
            LogToClean ltc = new LogToClean(log, firstDirty, offsets.firstUncleanableDirtyOffset(), false);
            j.open('{').put("firstDirtyOffset", firstDirty)
                .put("firstUncleanableDirtyOffset", offsets.firstUncleanableDirtyOffset())
                .put("forceUpdateCheckpoint", offsets.forceUpdateCheckpoint())
                .put("firstUncleanableOffset", bytes.getKey()).put("cleanableBytes", bytes.getValue())
                .put("cleanBytes", ltc.cleanBytes())
                .put("maxCompactionDelayMs", (Long) delay.invoke(null, log, firstDirty, now))
                .put("lastStableOffset", log.lastStableOffset())
                .put("activeSegmentBase", log.activeSegment().baseOffset()).close('}');
        }
        j.close(']');
        log.close();
        scheduler.drain();
        System.out.println(j);
    }
}
