package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.RecordVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * Makes a partition's log from a seed and options (README.md), without a broker. Kafka's UnifiedLog writes all files:
 * segments, indexes, snapshots, checkpoints. The same seed and options give the same bytes.
 */
final class LogMaker {
    private static final int BATCH_BYTES = 16384;
    private final SplittableRandom rnd;

    private final long records;
    private final long maxBytes;
    private final RecordContent content;
    private final List<Compression> codecs = new ArrayList<>();
    private final RecordContent.Dist batchRecords;
    private final byte[] magics;
    private final double legacyHoles;
    private final TimestampType tsType;
    private final long tsStart;
    private final double tsStep;
    private final long tsJitter;
    private final double tsNone;
    private final int epochs;
    private final double emptyBatches;
    private final List<Producer> idem = new ArrayList<>();
    private final List<Producer> txn = new ArrayList<>();
    private final RecordContent.Dist txnBatches;
    private final double abort;
    private final double openTxnAt;
    private final short txnVersion;
    private Producer opener;

    private final LabUtil.ManualTime time;
    private final LabUtil.InlineScheduler scheduler = new LabUtil.InlineScheduler();
    private final UnifiedLog log;
    private final RequestLocal requestLocal = RequestLocal.withThreadConfinedCaching();
    private final ByteBuffer buf = ByteBuffer.allocate(4 << 20);
    private final boolean rollEnd;

    private final TreeMap<Integer, Long> epochStarts = new TreeMap<>();
    private long written;       // data records so far
    private long batches;
    private long bytes;
    private long markers;
    private long aborted;

    private static final class Producer {
        final long pid;
        short epoch;
        int seq;
        boolean inTxn;
        int batchesLeft;

        Producer(long pid) {
            this.pid = pid;
            epoch = pid < 0 ? RecordBatch.NO_PRODUCER_EPOCH : 0;
            seq = pid < 0 ? RecordBatch.NO_SEQUENCE : 0;
        }

        boolean isTransactional() {
            return pid >= 2000;
        }
    }

    LogMaker(LabUtil.Args a) throws Exception {
        Path out = a.path("out");
        rnd = new SplittableRandom(a.num("seed", 1));
        records = a.num("records", 10_000);
        maxBytes = a.num("max_bytes", Long.MAX_VALUE);
        content = new RecordContent(a, rnd);
        for (String c : a.str("codec", "none").split(",")) codecs.add(Compression.of(CompressionType.forName(c)).build());
        batchRecords = new RecordContent.Dist(a.str("batch_records", "1:50"));
        String[] ms = a.str("magic", "2").split(",");
        magics = new byte[ms.length];
        for (int i = 0; i < ms.length; i++) magics[i] = Byte.parseByte(ms[i]);
        legacyHoles = a.dbl("legacy_holes", 0);
        tsStart = a.num("ts_start", 1_700_000_000_000L);
        tsStep = a.dbl("ts_step", 1);
        tsJitter = a.num("ts_jitter", 0);
        tsNone = a.dbl("ts_none", 0);
        tsType = TimestampType.forName(a.str("ts_type", "CreateTime"));
        epochs = a.intg("epochs", 1);
        emptyBatches = a.dbl("empty_batches", 0);
        int idems = a.intg("idem", 0);
        int txns = a.intg("txn", 0);
        for (int i = 0; i < idems; i++) idem.add(new Producer(1000 + i));
        for (int i = 0; i < txns; i++) txn.add(new Producer(2000 + i));
        txnBatches = new RecordContent.Dist(a.str("txn_batches", "1:5"));
        abort = a.dbl("abort", 0.3);
        openTxnAt = a.flag("open_txn", false) ? a.dbl("open_txn_at", 0.9) : 2;
        txnVersion = (short) a.intg("txn_version", 2);
        rollEnd = a.flag("roll_end", true);
        time = new LabUtil.ManualTime(tsStart);
        LabUtil.deletePartition(out);
        Files.createDirectories(out);
        var config = LabUtil.topicConfig(a.num("segment_bytes", 1L << 30), 86_400_000L, !content.hasNullKeys(), tsType.name);
        SplittableRandom idRnd = new SplittableRandom(a.num("seed", 1) ^ 0x5eedL);
        a.finish();
        // Producers never expire while the log is written, however far the clock jumps.
        log = LabUtil.open(out.toFile(), config, time, scheduler, 0, Integer.MAX_VALUE,
            Optional.of(new Uuid(idRnd.nextLong(), idRnd.nextLong())));
    }

    ObjectNode write() throws Exception {
        while (written < records && bytes < maxBytes) {
            double done = Math.max((double) written / records, (double) bytes / maxBytes);
            int leaderEpoch = (int) (done * epochs);
            epochStarts.putIfAbsent(leaderEpoch, log.logEndOffset());
            if (opener == null && done >= openTxnAt) opener = new Producer(2999);
            time.now = (long) (tsStart + written * tsStep);
            if (emptyBatches > 0 && rnd.nextDouble() < emptyBatches) appendEmpty(leaderEpoch);
            Producer p = pick();
            boolean isTxn = p.isTransactional();
            if (isTxn && !p.inTxn) {
                p.inTxn = true;
                p.batchesLeft = p == opener ? Integer.MAX_VALUE : Math.max(1, txnBatches.draw(rnd));
            }
            appendData(p, isTxn, leaderEpoch);
            if (isTxn && --p.batchesLeft == 0) endTxn(p, rnd.nextDouble() < abort, leaderEpoch);
        }
        int lastEpoch = epochs - 1;
        for (Producer p : txn) {
            if (!p.inTxn) continue;
            epochStarts.putIfAbsent(lastEpoch, log.logEndOffset());
            endTxn(p, rnd.nextDouble() < abort, lastEpoch);
        }
        restoreEpochs();
        log.updateHighWatermark(log.logEndOffset());
        if (rollEnd && log.activeSegment().size() > 0) log.roll();
        scheduler.drain();
        LabUtil.createIndexes(log);
        ObjectNode j = LabUtil.MAPPER.createObjectNode().put("records", written).put("batches", batches).put("markers", markers)
            .put("abortedTxns", aborted).put("segments", log.numberOfSegments()).put("logEndOffset", log.logEndOffset())
            .put("lastStableOffset", log.lastStableOffset()).put("activeSegmentBase", log.activeSegment().baseOffset())
            .put("firstTimestamp", tsStart).put("lastTimestamp", time.now);
        log.close();
        return j;
    }

    /** The timestamp of the n-th record of the next batch. */
    private long nextTimestamp(int n) {
        if (tsNone > 0 && rnd.nextDouble() < tsNone) return RecordBatch.NO_TIMESTAMP;
        long ts = (long) (tsStart + (written + n) * tsStep);
        return tsJitter > 0 ? ts + rnd.nextLong(-tsJitter, tsJitter + 1) : ts;
    }

    /** Draws a producer, possibly one without an id. */
    private Producer pick() {
        if (opener != null && rnd.nextInt(20) == 0) return opener;
        if (opener != null && !opener.inTxn) return opener;
        int idemWeight = idem.isEmpty() ? 0 : 1;
        int txnWeight = txn.isEmpty() ? 0 : 1;
        double x = rnd.nextDouble() * (1 + idemWeight + txnWeight);
        if (x < 1) return new Producer(RecordBatch.NO_PRODUCER_ID);
        List<Producer> producers = x < 1 + idemWeight ? idem : txn;
        return producers.get(rnd.nextInt(producers.size()));
    }

    /** Restores the leader epochs, which an append of magic 0 or 1 clears; segments in a tier need them. */
    private void restoreEpochs() {
        if (Arrays.equals(magics, new byte[] {2})) return;
        log.leaderEpochCache().clearAndFlush();
        epochStarts.forEach((epoch, start) -> log.leaderEpochCache().assign(epoch, start));
    }

    /**
     * Appends a batch of magic 2, or messages of magic 0 or 1. Of the latter, a share of legacy_holes has holes between the
     * offsets, as an older cleaner left them. Those are appended as by a follower.
     */
    private void appendData(Producer p, boolean isTxn, int leaderEpoch) throws Exception {
        byte magic = p.pid >= 0 ? RecordBatch.MAGIC_VALUE_V2 : magics.length == 1 ? magics[0] : magics[rnd.nextInt(magics.length)];
        Compression codec = codecs.size() == 1 ? codecs.get(0) : codecs.get(rnd.nextInt(codecs.size()));
        boolean legacy = magic < 2;
        if (legacy && codec.type() == CompressionType.ZSTD) codec = Compression.NONE;
        boolean holes = legacy && legacyHoles > 0 && rnd.nextDouble() < legacyHoles;
        long offset = holes ? log.logEndOffset() : 0;
        buf.clear();
        MemoryRecordsBuilder b = MemoryRecords.builder(buf, magic, codec, holes ? tsType : TimestampType.CREATE_TIME, offset,
            holes && tsType == TimestampType.LOG_APPEND_TIME ? time.now : RecordBatch.NO_TIMESTAMP,
            p.pid, p.epoch, p.seq, isTxn, RecordBatch.NO_PARTITION_LEADER_EPOCH);
        int want = (int) Math.min(Math.max(1, batchRecords.draw(rnd)), records - written);
        int n = 0;
        for (int raw = 0; n < want && (n == 0 || raw < BATCH_BYTES); n++) {
            ByteBuffer key = content.nextKey();
            ByteBuffer value = content.nextValue();
            // Kafka's cleaner throws if it must empty a legacy batch: the log's last record must survive.
            boolean mustSurvive = legacy && written + n == records - 1;
            while (mustSurvive && key == null) key = content.nextKey();
            while (mustSurvive && value == null) value = content.nextValue();
            raw += content.keySize + 12 + (value == null ? 0 : value.remaining());
            long ts = nextTimestamp(n);
            if (holes) offset += rnd.nextInt(3) == 0 ? rnd.nextInt(5) : 0;
            b.appendWithOffset(offset++, ts, key, value, legacy ? RecordContent.NO_HEADERS : content.nextHeaders());
        }
        MemoryRecords r = b.build();
        written += n;
        bytes += r.sizeInBytes();
        batches++;
        p.seq += n;
        if (holes) {
            log.appendAsFollower(r, leaderEpoch);
            log.updateHighWatermark(log.logEndOffset());
        } else if (legacy) log.appendAsLeaderWithRecordVersion(r, leaderEpoch, RecordVersion.lookup(magic));
        else log.appendAsLeader(r, leaderEpoch, AppendOrigin.CLIENT, requestLocal, VerificationGuard.SENTINEL, TransactionVersion.TV_UNKNOWN);
    }

    private void endTxn(Producer p, boolean doAbort, int leaderEpoch) throws Exception {
        // In transaction version 2 every transaction raises the producer epoch; the marker has the new one.
        if (txnVersion >= 2) {
            p.epoch++;
            p.seq = 0;
        }
        MemoryRecords r = MemoryRecords.withEndTransactionMarker(0L, time.now, RecordBatch.NO_PARTITION_LEADER_EPOCH, p.pid, p.epoch,
                new EndTransactionMarker(doAbort ? ControlRecordType.ABORT : ControlRecordType.COMMIT, 0));
        log.appendAsLeader(r, leaderEpoch, AppendOrigin.COORDINATOR, requestLocal, VerificationGuard.SENTINEL, txnVersion);
        p.inTxn = false;
        markers++;
        if (doAbort) aborted++;
    }

    /** Appends an empty batch, as the cleaner leaves them. It is appended as by a follower, since a leader refuses it. */
    private void appendEmpty(int leaderEpoch) throws Exception {
        Producer p = pick();
        if (p.isTransactional() && !p.inTxn) p = new Producer(RecordBatch.NO_PRODUCER_ID);
        int delta = rnd.nextInt(5);
        long base = log.logEndOffset();
        ByteBuffer b = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(b, RecordBatch.MAGIC_VALUE_V2, p.pid, p.epoch, p.seq, base, base + delta, leaderEpoch,
            TimestampType.CREATE_TIME, time.now, p.isTransactional(), false);
        b.flip();
        log.appendAsFollower(MemoryRecords.readableRecords(b), leaderEpoch);
        log.updateHighWatermark(log.logEndOffset());
        p.seq += delta + 1;
    }
}
