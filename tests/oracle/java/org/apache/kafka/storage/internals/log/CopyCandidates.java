package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import org.slf4j.LoggerFactory;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import sun.misc.Unsafe;

/**
 * Asks the copy task of Kafka's RemoteLogManager which segments of a log it would upload. Reads the log in place. Each case
 * has the offset to start from, the last stable offset, the time, and settings of the topic; each answer the base offsets.
 */
final class CopyCandidates {
    private static final String MANAGER = "org.apache.kafka.server.log.remote.storage.RemoteLogManager";

    private CopyCandidates() { }

    static ArrayNode candidates(LabUtil.Args a) throws Exception {
        Path dir = a.path("dir");
        JsonNode cases = a.get("cases");
        a.finish();
        Map<String, Object> config = LabUtil.topicConfig(1L << 30, 86_400_000L, true, "CreateTime");
        LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler();
        UnifiedLog log = LabUtil.open(dir.toFile(), config, new LabUtil.ManualTime(0), scheduler, 0, 86_400_000, Optional.empty());
        ArrayNode answers = LabUtil.MAPPER.createArrayNode();
        for (JsonNode asked : cases) {
            Map<String, Object> changed = new java.util.HashMap<>(config);
            for (Iterator<Map.Entry<String, JsonNode>> all = asked.get("settings").fields(); all.hasNext(); ) {
                Map.Entry<String, JsonNode> setting = all.next();
                changed.put(setting.getKey(), setting.getValue().asLong());
            }
            log.updateConfig(new LogConfig(changed));
            ArrayNode bases = answers.addArray();
            for (Object found : uploaded(log, asked)) {
                Field segment = found.getClass().getDeclaredField("logSegment");
                segment.setAccessible(true);
                bases.add(((LogSegment) segment.get(found)).baseOffset());
            }
        }
        log.close();
        scheduler.drain();
        return answers;
    }

    /** What the task takes. Its manager would connect to a cluster, so both are made without their constructors. */
    private static List<?> uploaded(UnifiedLog log, JsonNode asked) throws Exception {
        Class<?> kind = Class.forName(MANAGER + "$RLMCopyTask");
        Object manager = unsafe().allocateInstance(Class.forName(MANAGER));
        set(manager.getClass(), manager, "time", new LabUtil.ManualTime(asked.get("now_ms").asLong()));
        Object task = unsafe().allocateInstance(kind);
        set(kind, task, "this$0", manager);
        set(kind, task, "logger", LoggerFactory.getLogger(kind));
        Method candidates = kind.getDeclaredMethod("candidateLogSegments", UnifiedLog.class, Long.class, Long.class);
        candidates.setAccessible(true);
        return (List<?>) candidates.invoke(task, log, asked.get("from").asLong(), asked.get("last_stable_offset").asLong());
    }

    private static void set(Class<?> kind, Object object, String name, Object value) throws Exception {
        unsafe().putObject(object, unsafe().objectFieldOffset(kind.getDeclaredField(name)), value);
    }

    private static Unsafe unsafe() throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (Unsafe) field.get(null);
    }
}
