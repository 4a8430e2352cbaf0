package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;

/** Decompresses payloads of batches with Kafka's own classes. */
final class PayloadReader {
    private PayloadReader() { }

    /** For each payload {"codec": .., "stored": hex}: what it holds, in hex, or null if Kafka's reader refuses it. */
    static ArrayNode decompressed(LabUtil.Args a) {
        ArrayNode answers = LabUtil.MAPPER.createArrayNode();
        for (JsonNode payload : a.get("payloads")) {
            Compression compression = Compression.of(CompressionType.forName(payload.get("codec").asText())).build();
            ByteBuffer stored = ByteBuffer.wrap(HexFormat.of().parseHex(payload.get("stored").asText()));
            try (InputStream plain = compression.wrapForInput(stored, RecordBatch.MAGIC_VALUE_V2, BufferSupplier.create())) {
                answers.add(HexFormat.of().formatHex(plain.readAllBytes()));
            } catch (IOException | RuntimeException | Error refused) {
                answers.addNull();
            }
        }
        return answers;
    }
}
