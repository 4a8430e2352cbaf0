package org.apache.kafka.storage.internals.log;

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
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * Writes one partition's log in Kafka's own format through UnifiedLog, without a broker, from a seed and parameters.
 * Everything (offsets, indexes, txn index, producer snapshots, leader-epoch-checkpoint, partition.metadata) is written
 * by Kafka's own code. See README.md for the options. The same seed and options give the same .log bytes.
 */
public final class LogMaker {
    private final SplittableRandom rnd;

    // what to write
    private final long records;
    private final long maxBytes;
    private final RecordContent content;
    private final List<Compression> codecs = new ArrayList<>();
    private final RecordContent.Dist batchRecords;
    private final int batchBytes;
    private final byte[] magics;
    private final double legacyHoles;
    private final TimestampType tsType;
    private final long tsStart;
    private final double tsStep;
    private final long tsJitter;
    private final double tsNone;
    private final int epochs;
    private final double emptyBatches;

    // producers
    private final double[] mix = new double[3];
    private final List<Producer> idem = new ArrayList<>();
    private final List<Producer> txn = new ArrayList<>();
    private final RecordContent.Dist txnBatches;
    private final double abort;
    private final double openTxnAt;
    private final short txnVersion;
    private Producer opener;

    private final LabUtil.ManualTime time;
    private final LabUtil.InlineScheduler scheduler;
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
    private long empties;
    private long tombs;

    private static final class Producer {
        final long pid;
        short epoch;
        int seq;
        boolean inTxn;
        int batchesLeft;

        Producer(long pid) {
            this.pid = pid;
        }
    }

    private LogMaker(String[] argv) throws Exception {
        LabUtil.Args a = new LabUtil.Args(argv);
        Path out = Path.of(a.need("out"));
        LabUtil.checkPartitionDirName(out.toFile());
        rnd = new SplittableRandom(a.num("seed", 1));
        records = a.num("records", 10_000);
        maxBytes = a.num("max-bytes", Long.MAX_VALUE);
        content = new RecordContent(a, rnd);
        for (String c : a.str("codec", "none").split(",")) codecs.add(Compression.of(CompressionType.forName(c)).build());
        batchRecords = new RecordContent.Dist(a.str("batch-records", "1:50"));
        batchBytes = a.intg("batch-bytes", 16384);
        String[] ms = a.str("magic", "2").split(",");
        magics = new byte[ms.length];
        for (int i = 0; i < ms.length; i++) magics[i] = Byte.parseByte(ms[i]);
        legacyHoles = a.dbl("legacy-holes", 0);
        tsStart = a.num("ts-start", 1_700_000_000_000L);
        tsStep = a.dbl("ts-step", 1);
        tsJitter = a.num("ts-jitter", 0);
        tsNone = a.dbl("ts-none", 0);
        tsType = TimestampType.forName(a.str("ts-type", "CreateTime"));
        epochs = a.intg("epochs", 1);
        emptyBatches = a.dbl("empty-batches", 0);
        int nIdem = a.intg("idem", 0);
        int nTxn = a.intg("txn", 0);
        String[] m = a.str("mix", "1:1:1").split(":");
        for (int i = 0; i < 3; i++) mix[i] = Double.parseDouble(m[i]);
        if (nIdem == 0) mix[1] = 0;
        if (nTxn == 0) mix[2] = 0;
        for (int i = 0; i < nIdem; i++) idem.add(new Producer(1000 + i));
        for (int i = 0; i < nTxn; i++) txn.add(new Producer(2000 + i));
        txnBatches = new RecordContent.Dist(a.str("txn-batches", "1:5"));
        abort = a.dbl("abort", 0.3);
        openTxnAt = a.flag("open-txn", false) ? a.dbl("open-txn-at", 0.9) : 2;
        txnVersion = (short) a.intg("txn-version", 2);
        rollEnd = a.flag("roll-end", true);
        boolean compact = a.flag("compact", !content.hasNullKeys());
        boolean fsync = a.flag("fsync", false);

        time = new LabUtil.ManualTime(tsStart);
        scheduler = new LabUtil.InlineScheduler(!fsync);
        LabUtil.deleteTree(out);
        Files.createDirectories(out);
        var config = LabUtil.topicConfig(a.num("segment-bytes", 1L << 30), a.num("index-bytes", 10 << 20),
                a.num("index-interval-bytes", 4096), a.num("max-message-bytes", 4 << 20), 86_400_000L, compact, tsType.name,
                a.num("segment-ms", Long.MAX_VALUE));
        SplittableRandom idRnd = new SplittableRandom(a.num("seed", 1) ^ 0x5eedL);
        a.finish();
        // producers never expire while we write: the clock may jump by any amount
        log = LabUtil.open(out.toFile(), config, time, scheduler, 0, Integer.MAX_VALUE, true,
                Optional.of(new Uuid(idRnd.nextLong(), idRnd.nextLong())));
    }

    public static void main(String[] argv) throws Exception {
        System.out.println(new LogMaker(argv).write());
    }

    // ------------------------------------------------------------------ main loop

    private LabUtil.Json write() throws Exception {
        long t0 = System.nanoTime();
        while (written < records && bytes < maxBytes) {
            double done = Math.max((double) written / records, (double) bytes / maxBytes);
            int leaderEpoch = (int) (done * epochs);
            epochStarts.putIfAbsent(leaderEpoch, log.logEndOffset());
            if (opener == null && done >= openTxnAt) opener = new Producer(2999);
            time.now = (long) (tsStart + written * tsStep);
            if (emptyBatches > 0 && rnd.nextDouble() < emptyBatches) appendEmpty(leaderEpoch);
            Producer p = pick();
            boolean isTxn = p != null && p.pid >= 2000;
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
        // index files come into being on first use; a broker's shutdown touches them by flushing the active segment
        log.activeSegment().offsetIndex();
        log.activeSegment().timeIndex();
        LabUtil.Json j = new LabUtil.Json();
        j.open('{').put("dir", log.dir().toString()).put("records", written).put("tombstones", tombs).put("batches", batches).put("markers", markers)
            .put("abortedTxns", aborted).put("emptyBatches", empties).put("segments", log.numberOfSegments())
            .put("logBytes", log.size()).put("logEndOffset", log.logEndOffset()).put("lastStableOffset", log.lastStableOffset())
            .put("activeSegmentBase", log.activeSegment().baseOffset()).put("firstTimestamp", tsStart).put("lastTimestamp", time.now)
            .put("openTxnProducer", opener == null ? -1 : opener.pid);
        log.close();
        double s = (System.nanoTime() - t0) / 1e9;
        return j.put("seconds", s).put("mbPerSec", bytes / 1e6 / s).close('}');
    }

    /** Of a batch's n-th record. */
    private long nextTimestamp(int n) {
        if (tsNone > 0 && rnd.nextDouble() < tsNone) return RecordBatch.NO_TIMESTAMP;
        long ts = (long) (tsStart + (written + n) * tsStep);
        return tsJitter > 0 ? ts + rnd.nextLong(-tsJitter, tsJitter + 1) : ts;
    }

    /** null: no producer id. */
    private Producer pick() {
        if (opener != null && rnd.nextInt(20) == 0) return opener;
        if (opener != null && !opener.inTxn) return opener;
        double x = rnd.nextDouble() * (mix[0] + mix[1] + mix[2]);
        if (x < mix[0]) return null;
        if (x < mix[0] + mix[1]) return idem.get(rnd.nextInt(idem.size()));
        return mix[2] > 0 ? txn.get(rnd.nextInt(txn.size())) : null;
    }

    /** An append of magic 0 or 1 makes Kafka forget all leader epochs; a tier's segments need them. */
    private void restoreEpochs() {
        for (byte magic : magics) {
            if (magic >= 2) continue;
            log.leaderEpochCache().clearAndFlush();
            epochStarts.forEach((epoch, start) -> log.leaderEpochCache().assign(epoch, start));
            return;
        }
    }

    private void appendData(Producer p, boolean isTxn, int leaderEpoch) throws Exception {
        byte magic = p != null ? RecordBatch.MAGIC_VALUE_V2 : magics.length == 1 ? magics[0] : magics[rnd.nextInt(magics.length)];
        Compression codec = codecs.size() == 1 ? codecs.get(0) : codecs.get(rnd.nextInt(codecs.size()));
        if (magic < 2) {
            appendLegacy(magic, codec.type() == CompressionType.ZSTD ? Compression.NONE : codec, leaderEpoch);
            return;
        }
        buf.clear();
        MemoryRecordsBuilder b = MemoryRecords.builder(buf, magic, codec, TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP,
                p == null ? RecordBatch.NO_PRODUCER_ID : p.pid, p == null ? RecordBatch.NO_PRODUCER_EPOCH : p.epoch,
                p == null ? RecordBatch.NO_SEQUENCE : p.seq, isTxn, RecordBatch.NO_PARTITION_LEADER_EPOCH);
        int want = (int) Math.min(Math.max(1, batchRecords.draw(rnd)), records - written);
        int n = 0;
        int raw = 0;
        while (n < want && (n == 0 || raw < batchBytes)) {
            ByteBuffer key = content.nextKey();
            ByteBuffer value = content.nextValue();
            if (value == null) tombs++;
            else raw += value.remaining();
            raw += content.keySize + 12;
            long ts = nextTimestamp(n);
            b.append(ts, key, value, content.nextHeaders());
            n++;
        }
        MemoryRecords r = b.build();
        int size = r.sizeInBytes();
        log.appendAsLeader(r, leaderEpoch, AppendOrigin.CLIENT, requestLocal, VerificationGuard.SENTINEL, TransactionVersion.TV_UNKNOWN);
        if (p != null) p.seq += n;
        written += n;
        bytes += size;
        batches++;
    }

    /**
     * Messages of magic 0 or 1, as a producer sends them or, for a share of --legacy-holes, as an older cleaner left them:
     * those come in by replication, with holes between their offsets.
     */
    private void appendLegacy(byte magic, Compression codec, int leaderEpoch) throws Exception {
        boolean holes = legacyHoles > 0 && rnd.nextDouble() < legacyHoles;
        long offset = holes ? log.logEndOffset() : 0;
        buf.clear();
        MemoryRecordsBuilder b = MemoryRecords.builder(buf, magic, codec, holes ? tsType : TimestampType.CREATE_TIME, offset,
                holes && tsType == TimestampType.LOG_APPEND_TIME ? time.now : RecordBatch.NO_TIMESTAMP,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false,
                RecordBatch.NO_PARTITION_LEADER_EPOCH);
        int want = (int) Math.min(Math.max(1, batchRecords.draw(rnd)), records - written);
        int n = 0;
        int raw = 0;
        while (n < want && (n == 0 || raw < batchBytes)) {
            ByteBuffer key = content.nextKey();
            ByteBuffer value = content.nextValue();
            // Kafka's cleaner throws where it must leave a legacy batch empty: the log's last record has to survive
            boolean last = written + n == records - 1;
            while (last && key == null) key = content.nextKey();
            while (last && value == null) value = content.nextValue();
            if (value == null) tombs++;
            else raw += value.remaining();
            raw += content.keySize + 12;
            long ts = nextTimestamp(n);
            if (holes) offset += rnd.nextInt(3) == 0 ? rnd.nextInt(5) : 0;
            b.appendWithOffset(offset++, ts, key, value, RecordContent.NO_HEADERS);
            n++;
        }
        MemoryRecords r = b.build();
        int size = r.sizeInBytes();
        if (holes) {
            log.appendAsFollower(r, leaderEpoch);
            log.updateHighWatermark(log.logEndOffset());
        } else log.appendAsLeaderWithRecordVersion(r, leaderEpoch, RecordVersion.lookup(magic));
        written += n;
        bytes += size;
        batches++;
    }

    private void endTxn(Producer p, boolean doAbort, int leaderEpoch) throws Exception {
        // transaction version 2: the coordinator bumps the epoch with every transaction; the marker carries the new one
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

    /** An empty batch, as an earlier cleaning leaves behind; it comes in by replication, since a leader refuses empty batches. */
    private void appendEmpty(int leaderEpoch) throws Exception {
        Producer p = pick();
        if (p != null && p.pid >= 2000 && !p.inTxn) p = null;
        int delta = rnd.nextInt(5);
        long base = log.logEndOffset();
        ByteBuffer b = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(b, RecordBatch.MAGIC_VALUE_V2, p == null ? RecordBatch.NO_PRODUCER_ID : p.pid,
                p == null ? RecordBatch.NO_PRODUCER_EPOCH : p.epoch, p == null ? RecordBatch.NO_SEQUENCE : p.seq, base, base + delta,
                leaderEpoch, TimestampType.CREATE_TIME, time.now, p != null && p.pid >= 2000, false);
        b.flip();
        log.appendAsFollower(MemoryRecords.readableRecords(b), leaderEpoch);
        log.updateHighWatermark(log.logEndOffset());
        if (p != null) p.seq += delta + 1;
        empties++;
    }
}
