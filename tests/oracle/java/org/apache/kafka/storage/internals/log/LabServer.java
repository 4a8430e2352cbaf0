package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/**
 * One JVM for many calls. Reads a JSON line {"tool": "make|replicate|clean|dump|fetch|select|dumplog|settings", "args": [..]} from standard input, runs
 * that tool's main with standard output and error captured, and answers one JSON line:
 * {"out": .., "err": .., "failure": null or a stack trace}. Ends when its input ends.
 */
public final class LabServer {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    /** Stands in for System.exit inside a tool. */
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
            answers.println(answer(MAPPER.readTree(line)));
            answers.flush();
        }
    }

    private static String answer(JsonNode request) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        String failure = null;
        try (PrintStream o = new PrintStream(out, false, StandardCharsets.UTF_8);
             PrintStream e = new PrintStream(err, false, StandardCharsets.UTF_8)) {
            System.setOut(o);
            System.setErr(e);
            run(request.get("tool").asText(), MAPPER.convertValue(request.get("args"), String[].class));
        } catch (Throwable t) {
            StringWriter trace = new StringWriter();
            t.printStackTrace(new PrintWriter(trace));
            failure = trace.toString();
        } finally {
            System.setOut(realOut);
            System.setErr(realErr);
        }
        return MAPPER.writeValueAsString(MAPPER.createObjectNode().put("out", out.toString(StandardCharsets.UTF_8))
            .put("err", err.toString(StandardCharsets.UTF_8)).put("failure", failure));
    }

    private static void run(String tool, String[] args) throws Exception {
        switch (tool) {
            case "make" -> LogMaker.main(args);
            case "replicate" -> LogReplica.main(args);
            case "clean" -> OracleCleaner.main(args);
            case "dump" -> LogDump.main(args);
            case "fetch" -> TierReader.main(args);
            case "select" -> CleanableRegions.main(args);
            case "settings" -> SettingsReader.main(args);
            case "dumplog" -> DumpLogSegments.main(args);
            default -> throw new IllegalArgumentException("unknown tool " + tool);
        }
    }
}
