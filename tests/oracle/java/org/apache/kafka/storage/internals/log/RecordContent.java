package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** What LogMaker puts into its records: keys, values and headers, drawn from the log's own random numbers. */
final class RecordContent {
    static final Header[] NO_HEADERS = new Header[0];
    private static final int POOL = 1 << 20;
    private static final int MAX_VALUE = 1 << 20;

    final int keySize;
    private final SplittableRandom rnd;
    private final long keys;
    private final boolean binaryKeys;
    private final String keyDist;
    private final double zipfExponent;
    private final Dist valueSize;
    private final byte[] pool;
    private final double tombstones;
    private final double nullKeys;
    private final Dist headers;
    private final String versionHeader;
    private final double versionMissing;
    private final double versionDup;
    private final double versionBad;
    private final double versionStale;
    private long versionCounter = 1;
    private long seqNext;

    RecordContent(LabUtil.Args a, SplittableRandom rnd) {
        this.rnd = rnd;
        keys = a.num("keys", 1000);
        keySize = a.intg("key-size", 24);
        binaryKeys = a.str("key-kind", "text").equals("binary");
        String kd = a.str("key-dist", "uniform");
        zipfExponent = kd.startsWith("zipf:") ? Double.parseDouble(kd.substring(5)) : 1.1;
        keyDist = kd.startsWith("zipf") ? "zipf" : kd;
        valueSize = new Dist(a.str("value-size", "100"));
        pool = makePool(a.str("value-kind", "random"));
        tombstones = a.dbl("tombstones", 0);
        nullKeys = a.dbl("null-keys", 0);
        headers = new Dist(a.str("headers", "0"));
        versionHeader = a.str("version-header", null);
        versionMissing = a.dbl("version-missing", 0);
        versionDup = a.dbl("version-dup", 0);
        versionBad = a.dbl("version-bad", 0);
        versionStale = a.dbl("version-stale", 0);
    }

    boolean hasNullKeys() {
        return nullKeys > 0;
    }

    /** The key of the next record; null for a share of --null-keys. */
    ByteBuffer nextKey() {
        long id = nextId();
        return nullKeys > 0 && rnd.nextDouble() < nullKeys ? null : key(id);
    }

    /** The value of the next record; null, a tombstone, for a share of --tombstones. */
    ByteBuffer nextValue() {
        if (tombstones > 0 && rnd.nextDouble() < tombstones) return null;
        int len = valueSize.draw(rnd);
        return ByteBuffer.wrap(pool, rnd.nextInt(POOL), len).slice();   // the legacy format takes limit() for the size
    }

    /** "N", "A:B" (uniform), "lognormal:MEDIAN:SIGMA", "exp:MEAN". */
    static final class Dist {
        private final String kind;
        private final double p;
        private final double q;

        Dist(String spec) {
            String[] s = spec.split(":");
            if (s[0].equals("lognormal")) {
                kind = "lognormal";
                p = Math.log(LabUtil.parseNum(s[1]));
                q = Double.parseDouble(s[2]);
            } else if (s[0].equals("exp")) {
                kind = "exp";
                p = LabUtil.parseNum(s[1]);
                q = 0;
            } else {
                kind = "uniform";
                p = LabUtil.parseNum(s[0]);
                q = s.length > 1 ? LabUtil.parseNum(s[1]) : p;
            }
        }

        int draw(SplittableRandom r) {
            switch (kind) {
                case "lognormal":
                    double g = Math.sqrt(-2 * Math.log(1 - r.nextDouble())) * Math.cos(2 * Math.PI * r.nextDouble());
                    return (int) Math.min(MAX_VALUE, Math.exp(p + q * g));
                case "exp":
                    return (int) Math.min(MAX_VALUE, -p * Math.log(1 - r.nextDouble()));
                default:
                    return p == q ? (int) p : (int) r.nextLong((long) p, (long) q + 1);
            }
        }
    }

    private long nextId() {
        switch (keyDist) {
            case "seq":
                return seqNext++ % keys;
            case "zipf": {
                // inverse of a continuous power distribution on [1, keys+1): close to Zipf and quick
                double u = rnd.nextDouble();
                double x;
                if (zipfExponent == 1.0) x = Math.exp(u * Math.log(keys + 1.0));
                else {
                    double e = 1 - zipfExponent;
                    x = Math.pow(u * (Math.pow(keys + 1.0, e) - 1) + 1, 1 / e);
                }
                return Math.min(keys - 1, (long) x - 1);
            }
            default:
                return rnd.nextLong(keys);
        }
    }

    private ByteBuffer key(long id) {
        byte[] k = new byte[keySize];
        if (binaryKeys) {
            SplittableRandom r = new SplittableRandom(id);
            for (int i = 0; i < keySize; i += 8) {
                long v = r.nextLong();
                for (int q = 0; q < 8 && i + q < keySize; q++) k[i + q] = (byte) (v >>> (8 * q));
            }
        } else {
            for (int i = keySize - 1; i >= 0; i--) {
                k[i] = (byte) ('0' + id % 10);
                id /= 10;
            }
            if (keySize >= 20) {
                k[0] = 'k';
                k[1] = 'e';
                k[2] = 'y';
                k[3] = '-';
            }
        }
        return ByteBuffer.wrap(k);
    }

    /** The headers of the next record. */
    Header[] nextHeaders() {
        int n = headers.draw(rnd);
        boolean ver = versionHeader != null && !(versionMissing > 0 && rnd.nextDouble() < versionMissing);
        if (n == 0 && !ver) return NO_HEADERS;
        List<Header> h = new ArrayList<>(n + 2);
        for (int i = 0; i < n; i++) {
            byte[] v = rnd.nextInt(8) == 0 ? null : new byte[rnd.nextInt(20)];
            if (v != null) for (int q = 0; q < v.length; q++) v[q] = (byte) rnd.nextInt(256);
            h.add(new RecordHeader("h" + rnd.nextInt(6), v));
        }
        if (ver) {
            h.add(rnd.nextInt(h.size() + 1), versionHeaderOf());
            if (versionDup > 0 && rnd.nextDouble() < versionDup) h.add(rnd.nextInt(h.size() + 1), versionHeaderOf());
        }
        return h.toArray(NO_HEADERS);
    }

    /** An 8-byte big-endian long, rising through the log; sometimes stale (smaller than before), sometimes malformed. */
    private Header versionHeaderOf() {
        if (versionBad > 0 && rnd.nextDouble() < versionBad) {
            switch (rnd.nextInt(4)) {
                case 0: return new RecordHeader(versionHeader, (byte[]) null);
                case 1: return new RecordHeader(versionHeader, new byte[0]);
                case 2: return new RecordHeader(versionHeader, new byte[] {1, 2, 3, 4});
                default: return new RecordHeader(versionHeader, "not-a-long-at-all".getBytes(StandardCharsets.US_ASCII));
            }
        }
        long v = versionCounter++;
        if (versionStale > 0 && rnd.nextDouble() < versionStale) v = rnd.nextLong(-5, v + 1);
        return new RecordHeader(versionHeader, ByteBuffer.allocate(8).putLong(v).array());
    }

    /** Values are slices of one pool (POOL + MAX_VALUE bytes, so that no slice wraps). */
    private byte[] makePool(String kind) {
        byte[] p = new byte[POOL + MAX_VALUE];
        SplittableRandom r = rnd.split();
        if (kind.equals("random")) {
            for (int i = 0; i < p.length; i += 8) {
                long v = r.nextLong();
                for (int q = 0; q < 8 && i + q < p.length; q++) p[i + q] = (byte) (v >>> (8 * q));
            }
        } else if (kind.equals("text")) {
            // JSON-like: few field names, words out of a small vocabulary, numbers
            String[] words = new String[2000];
            for (int i = 0; i < words.length; i++) {
                StringBuilder sb = new StringBuilder();
                for (int q = 3 + r.nextInt(8); q > 0; q--) sb.append((char) ('a' + r.nextInt(26)));
                words[i] = sb.toString();
            }
            String[] fields = {"id", "user", "amount", "currency", "status", "created_at", "updated_at", "country", "comment", "ref"};
            StringBuilder sb = new StringBuilder(p.length + 256);
            while (sb.length() < p.length) {
                sb.append("{");
                for (String f : fields) {
                    sb.append('"').append(f).append("\":");
                    if (r.nextInt(3) == 0) sb.append(r.nextInt(1_000_000));
                    else sb.append('"').append(words[(int) (words.length * Math.pow(r.nextDouble(), 2))]).append('"');
                    sb.append(',');
                }
                sb.append("\"end\":true}\n");
            }
            System.arraycopy(sb.substring(0, p.length).getBytes(StandardCharsets.US_ASCII), 0, p, 0, p.length);
        } else if (!kind.equals("zero")) throw new IllegalArgumentException("--value-kind random|text|zero");
        return p;
    }
}
