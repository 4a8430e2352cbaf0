package org.apache.kafka.common.utils;

/** The class that Kafka 4.4 moved, under the name that the test jars of 4.3.0 use. */
public class LogContext extends org.apache.kafka.common.utils.internals.LogContext {
    public LogContext(String prefix) {
        super(prefix);
    }
}
