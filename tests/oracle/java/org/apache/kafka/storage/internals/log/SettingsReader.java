package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;

/** Reads and resolves settings with Kafka's own classes. */
final class SettingsReader {
    private static final Map<String, String> REQUIRED = Map.of("process.roles", "broker,controller", "node.id", "1",
        "controller.quorum.voters", "1@localhost:9093", "listeners", "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names", "CONTROLLER");

    private SettingsReader() { }

    /** Every topic setting with its type, default and bounds, and the names that brokers use for it. */
    static ObjectNode known() {
        ObjectNode all = LabUtil.MAPPER.createObjectNode();
        for (ConfigKey key : LogConfig.configKeys().values()) {
            ArrayNode synonyms = described(all.putObject(key.name), key).putArray("broker");
            List<ConfigSynonym> names = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(key.name);
            if (names == null) continue;
            for (ConfigSynonym known : names) {
                ObjectNode synonym = synonyms.addObject().put("name", known.name()).put("seven", known.converter().apply("7"));
                described(synonym, AbstractKafkaConfig.CONFIG_DEF.configKeys().get(known.name()));
            }
        }
        String brokerOnly = "producer.id.expiration.ms";
        described(all.putObject(brokerOnly), AbstractKafkaConfig.CONFIG_DEF.configKeys().get(brokerOnly));
        return all;
    }

    /** Every name that server.properties may have; a prefix ends in *. */
    static ArrayNode brokerNames() {
        TreeSet<String> names = new TreeSet<>(AbstractKafkaConfig.CONFIG_DEF.names());
        names.add(StandardAuthorizer.SUPER_USERS_CONFIG);
        names.add(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG);
        names.add(new ListenerName("any").configPrefix().replace("any.", "*"));
        names.add(RemoteLogManagerConfig.DEFAULT_REMOTE_STORAGE_MANAGER_CONFIG_PREFIX + "*");
        names.add(RemoteLogManagerConfig.DEFAULT_REMOTE_LOG_METADATA_MANAGER_CONFIG_PREFIX + "*");
        ArrayNode all = LabUtil.MAPPER.createArrayNode();
        names.forEach(all::add);
        return all;
    }

    private static ObjectNode described(ObjectNode into, ConfigKey key) {
        return into.put("type", key.type.toString())
            .put("default", key.defaultValue == null ? null : key.defaultValue.toString())
            .put("allowed", key.validator == null ? null : key.validator.toString());
    }

    /** For each case {"broker": {..}, "topic": {..}}: the values of that topic on that broker, or why Kafka refuses them. */
    static ArrayNode resolved(LabUtil.Args a) throws Exception {
        ArrayNode answers = LabUtil.MAPPER.createArrayNode();
        for (JsonNode asked : a.get("cases")) {
            ObjectNode answer = answers.addObject();
            try {
                Map<String, Object> broker = new HashMap<>(REQUIRED);
                broker.putAll(texts(asked.get("broker")));
                Properties topic = new Properties();
                topic.putAll(texts(asked.get("topic")));
                Map<String, Object> defaults = new KafkaConfig(broker, false).extractLogConfigMap();
                LogConfig.validate(Map.of(), texts(asked.get("topic")), defaults, true);
                LogConfig effective = LogConfig.fromProps(defaults, topic);
                ObjectNode values = answer.putObject("values");
                effective.values().forEach((name, value) -> values.put(name, value == null ? null : value.toString()));
            } catch (KafkaException | IllegalArgumentException refused) {
                answer.put("refused", refused.getMessage());
            }
        }
        return answers;
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> texts = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> all = node.fields(); all.hasNext(); ) {
            Map.Entry<String, JsonNode> setting = all.next();
            texts.put(setting.getKey(), setting.getValue().asText());
        }
        return texts;
    }
}
