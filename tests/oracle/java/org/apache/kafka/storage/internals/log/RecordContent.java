package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;

/** Draws the keys, values and headers of LogMaker's records. */
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
    private long seqNext;

    RecordContent(LabUtil.Args a, SplittableRandom rnd) {
        this.rnd = rnd;
        keys = a.num("keys", 1000);
        keySize = a.intg("key_size", 24);
        binaryKeys = a.str("key_kind", "text").equals("binary");
        String kd = a.str("key_dist", "uniform");
        zipfExponent = kd.startsWith("zipf:") ? Double.parseDouble(kd.substring(5)) : 1.1;
        keyDist = kd.startsWith("zipf") ? "zipf" : kd;
        valueSize = new Dist(a.str("value_size", "100"));
        pool = makePool(a.str("value_kind", "random"));
        tombstones = a.dbl("tombstones", 0);
        nullKeys = a.dbl("null_keys", 0);
        headers = new Dist(a.str("headers", "0"));
    }

    boolean hasNullKeys() {
        return nullKeys > 0;
    }

    /** The key of the next record; a share of null_keys is null. */
    ByteBuffer nextKey() {
        long id = nextId();
        return nullKeys > 0 && rnd.nextDouble() < nullKeys ? null : key(id);
    }

    /** The value of the next record; a share of tombstones is null. */
    ByteBuffer nextValue() {
        if (tombstones > 0 && rnd.nextDouble() < tombstones) return null;
        int len = valueSize.draw(rnd);
        return ByteBuffer.wrap(pool, rnd.nextInt(POOL), len).slice();   // The legacy format reads limit() as the size.
    }

    /** A distribution of whole numbers: "N", "A:B" (uniform) or "exp:MEAN". */
    static final class Dist {
        private final boolean isExponential;
        private final long least;
        private final long most;

        Dist(String spec) {
            String[] s = spec.split(":");
            isExponential = s[0].equals("exp");
            most = LabUtil.parseNum(s[s.length - 1]);
            least = isExponential ? 0 : LabUtil.parseNum(s[0]);
        }

        int draw(SplittableRandom r) {
            if (isExponential) return (int) Math.min(MAX_VALUE, -most * Math.log(1 - r.nextDouble()));
            return least == most ? (int) least : (int) r.nextLong(least, most + 1);
        }
    }

    private long nextId() {
        if (keyDist.equals("seq")) return seqNext++ % keys;
        if (!keyDist.equals("zipf")) return rnd.nextLong(keys);
        // The inverse of a continuous power distribution on [1, keys+1), which is close to Zipf.
        double e = 1 - zipfExponent;
        double x = Math.pow(rnd.nextDouble() * (Math.pow(keys + 1.0, e) - 1) + 1, 1 / e);
        return Math.min(keys - 1, (long) x - 1);
    }

    private ByteBuffer key(long id) {
        byte[] k = new byte[keySize];
        if (binaryKeys) {
            new SplittableRandom(id).nextBytes(k);
        } else {
            for (int i = keySize - 1; i >= 0; i--) {
                k[i] = (byte) ('0' + id % 10);
                id /= 10;
            }
            if (keySize >= 20) System.arraycopy("key-".getBytes(StandardCharsets.US_ASCII), 0, k, 0, 4);
        }
        return ByteBuffer.wrap(k);
    }

    /** The headers of the next record. */
    Header[] nextHeaders() {
        Header[] drawn = new Header[headers.draw(rnd)];
        for (int i = 0; i < drawn.length; i++) {
            byte[] v = rnd.nextInt(8) == 0 ? null : new byte[rnd.nextInt(20)];
            if (v != null) for (int q = 0; q < v.length; q++) v[q] = (byte) rnd.nextInt(256);
            drawn[i] = new RecordHeader("h" + rnd.nextInt(6), v);
        }
        return drawn;
    }

    /** The bytes of which values are slices: POOL + MAX_VALUE of them, so that no slice wraps. */
    private byte[] makePool(String kind) {
        byte[] p = new byte[POOL + MAX_VALUE];
        SplittableRandom r = rnd.split();
        if (kind.equals("random")) {
            r.nextBytes(p);
        } else if (kind.equals("text")) {
            // Like JSON: few field names, words from a small vocabulary, numbers.
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
        } else throw new IllegalArgumentException("value_kind is random or text");
        return p;
    }
}
