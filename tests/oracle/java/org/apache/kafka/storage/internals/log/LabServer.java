package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.server.log.remote.metadata.storage.MetadataMirror;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/**
 * Serves many calls from one JVM. Reads a JSON line {"tool": .., "options": {..}} from standard input, runs the tool, and
 * answers with a JSON line {"result": .., "out": .., "err": .., "failure": null or a stack trace}; `out` and `err` have what
 * the tool printed. Ends when its input ends.
 */
public final class LabServer {
    /** Thrown in place of System.exit. */
    private static final class Exited extends RuntimeException {
        Exited(int status, String message) {
            super("the tool asked to exit with status " + status + (message == null ? "" : ": " + message));
        }
    }

    private LabServer() { }

    public static void main(String[] argv) throws Exception {
        Exit.Procedure thrower = (status, message) -> {
            throw new Exited(status, message);
        };
        Exit.setExitProcedure(thrower);
        Exit.setHaltProcedure(thrower);
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            answers.println(answer(LabUtil.MAPPER.readTree(line)));
            answers.flush();
        }
    }

    private static String answer(JsonNode request) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        String failure = null;
        JsonNode result = null;
        try (PrintStream o = new PrintStream(out, false, StandardCharsets.UTF_8);
             PrintStream e = new PrintStream(err, false, StandardCharsets.UTF_8)) {
            System.setOut(o);
            System.setErr(e);
            result = run(request.get("tool").asText(), request.get("options"));
        } catch (Throwable t) {
            StringWriter trace = new StringWriter();
            t.printStackTrace(new PrintWriter(trace));
            failure = trace.toString();
        } finally {
            System.setOut(realOut);
            System.setErr(realErr);
        }
        return LabUtil.MAPPER.createObjectNode().put("out", out.toString(StandardCharsets.UTF_8))
            .put("err", err.toString(StandardCharsets.UTF_8)).put("failure", failure).<ObjectNode>set("result", result).toString();
    }

    private static JsonNode run(String tool, JsonNode options) throws Exception {
        if (tool.equals("dumplog")) {
            DumpLogSegments.main(LabUtil.MAPPER.convertValue(options.get("arguments"), String[].class));
            return null;
        }
        LabUtil.Args a = new LabUtil.Args(options);
        return switch (tool) {
            case "make" -> new LogMaker(a).write();
            case "replicate" -> LogReplica.replicate(a);
            case "clean" -> OracleCleaner.clean(a);
            case "batches" -> LogDump.batches(a);
            case "side-files" -> LogDump.sideFiles(a);
            case "fetch" -> TierReader.fetch(a);
            case "consume" -> ConsumerReads.read(a);
            case "offsets-for-times" -> ConsumerReads.offsetsForTimes(a);
            case "select" -> CleanableRegions.select(a);
            case "copy-candidates" -> CopyCandidates.candidates(a);
            case "decompress" -> PayloadReader.decompressed(a);
            case "metadata-topics" -> MetadataMirror.topics(a.get("topics"));
            case "metadata-events" -> MetadataMirror.events(a.get("values"));
            case "metadata-partitions" -> MetadataMirror.metadataPartitions(a.get("asked"));
            case "known-settings" -> SettingsReader.known();
            case "broker-names" -> SettingsReader.brokerNames();
            case "resolve-settings" -> SettingsReader.resolved(a);
            default -> throw new IllegalArgumentException("unknown tool " + tool);
        };
    }
}
