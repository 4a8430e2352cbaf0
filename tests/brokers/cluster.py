"""A real Kafka cluster with tiered storage (LocalTieredStorage), on loopback, in seconds.

    with KafkaCluster(folder) as kafka:
        topic = kafka.create("orders")
        topic.append([(b"a", b"1"), (b"b", b"1")])  # a segment for each call
        topic.append([(b"a", b"2")])
        topic.wait_until_tiered()
        kafka.tier                                  # what `tierfold` takes

The first broker is the controller, too. Every process ends with the one that started it.
"""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.broker import QUICK_START, Broker, BrokerFailed
from tests.brokers.topics import CALL_S, METADATA_TOPIC, ROLL_MS, Topic, wait_until_readable
from tests.brokers.versions import NEWEST
from tests.oracle.kafka_jars import broker_class_path, tool
from tests.storage.emulators import free_port

METADATA_PARTITIONS: Final = 5
"""Of `__remote_log_metadata`; Kafka's default, 50, would make more files."""

_TOOL_S: Final = 4 * CALL_S
"""A tool is a JVM that starts and connects first; on a busy machine that alone took 30 seconds."""

_STORAGE: Final = "org.apache.kafka.server.log.remote"
_SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Uploads, expiry and deletion at once.
    "remote.log.manager.task.interval.ms": "50",
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "20",
    # The metadata topic takes it from here: no event is taken half an hour after it was sent.
    "log.message.timestamp.before.max.ms": "1800000",
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": f"{_STORAGE}.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "rsm.config.delete.on.close": "false",
    "remote.log.metadata.manager.class.name": (
        f"{_STORAGE}.metadata.storage.TopicBasedRemoteLogMetadataManager"
    ),
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
}
_TOPIC_SETTINGS: Final = {
    # Records of tests are old.
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": str(ROLL_MS),
    # What is uploaded is deleted locally at once.
    "local.retention.ms": "1",
    "file.delete.delay.ms": "20",
}


class KafkaCluster:
    """One broker, and others on demand.

    `settings` are lines of server.properties; they prevail. `listeners` are those that each broker
    has beside `PLAINTEXT`: names and protocols, such as `SASL_SSL`.
    """

    def __init__(
        self,
        folder: Path,
        version: str = NEWEST,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.tier = folder / "tier"
        self.brokers: list[Broker] = []
        self._folder = folder
        self._settings = dict(settings or {})
        self._id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._controller = f"127.0.0.1:{free_port()}"
        self._listeners = {"PLAINTEXT": "PLAINTEXT"} | dict(listeners or {})
        self._addresses: list[dict[str, str]] = []

    def __enter__(self) -> Self:
        self.tier.mkdir(parents=True, exist_ok=True)
        try:
            self.broker(1)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def servers(self) -> str:
        """The addresses of all running brokers, as `--bootstrap-server` takes them."""
        return self.servers_of("PLAINTEXT")

    def servers_of(self, listener: str) -> str:
        """The addresses of all running brokers at one of their listeners."""
        brokers = zip(self.brokers, self._addresses, strict=True)
        return ",".join(addresses[listener] for broker, addresses in brokers if broker.pid)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of all running brokers."""
        return tuple(node for node, broker in enumerate(self.brokers, start=1) if broker.pid)

    def broker(self, node: int) -> Broker:
        """The broker with a node id, started if it does not run; ids count from 1."""
        while len(self.brokers) < node:
            self.brokers.append(self._new_broker())
        broker = self.brokers[node - 1]
        if broker.pid is None:
            broker.start(self._id)
        return broker

    def _new_broker(self) -> Broker:
        node = len(self.brokers) + 1
        addresses = {name: f"127.0.0.1:{free_port()}" for name in self._listeners}
        self._addresses.append(addresses)
        advertised = [f"{name}://{address}" for name, address in addresses.items()]
        controller = [f"CONTROLLER://{self._controller}"] if node == 1 else []
        protocols = {"CONTROLLER": "PLAINTEXT"} | self._listeners
        settings = {
            "node.id": str(node),
            "process.roles": "broker,controller" if controller else "broker",
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": ",".join(advertised + controller),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
            "rsm.config.dir": str(self.tier),
        }
        folder = self._folder / f"broker-{node}"
        return Broker(self.version, folder, _SETTINGS | settings | self._settings)

    def restart(self, broker: Broker, *, is_killed: bool = False) -> None:
        """Stop a broker, start it again, and wait until all topics can be read.

        It answers UNKNOWN to readers of remote segments, until it has read the metadata topic.
        `is_killed`: it is not asked to stop, but ended by SIGKILL.
        """
        if is_killed:
            broker.kill()
        else:
            broker.stop()
        broker.start(self._id)
        topics = self.admin().list_topics(timeout=CALL_S).topics
        wait_until_readable(
            self,
            [
                (name, number)
                for name, topic in topics.items()
                for number, partition in topic.partitions.items()
                if {*self.nodes} & {*partition.replicas}
            ],
        )

    def halt(self) -> None:
        """Let all brokers keep their connections, answer nothing and take no CPU time."""
        self._signal(signal.SIGSTOP)
        for broker in self.brokers:
            broker.wait(broker.is_halted, "all its threads to stop")

    def go_on(self) -> None:
        """End `halt`."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Halt all brokers within this block."""
        self.halt()
        try:
            yield
        finally:
            self.go_on()

    def _signal(self, signum: signal.Signals) -> None:
        for broker in self.brokers:
            broker.signal(signum)

    def stop(self) -> None:
        """Stop all brokers, the controller last."""
        self.go_on()
        for broker in reversed(self.brokers):
            broker.stop()

    def client_settings(self, **settings: Any) -> dict[str, Any]:
        """What a client of confluent-kafka needs; `a_b` stands for `a.b`."""
        names = {name.replace("_", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": self.servers, "log_level": 0} | names

    def admin(self) -> AdminClient:
        """An administrator's client."""
        return AdminClient(self.client_settings())

    def create(
        self, name: str, partitions: int = 1, replicas: Sequence[int] = (1,), **settings: str
    ) -> Topic:
        """Create a tiered topic; each setting `a_b` stands for `a.b`.

        `replicas`: the node ids of each partition's replicas, the preferred leader first.
        """
        config = _TOPIC_SETTINGS | {k.replace("_", "."): v for k, v in settings.items()}
        placement = [list(replicas)] * partitions
        topic = NewTopic(name, partitions, config=config, replica_assignment=placement)
        admin = self.admin()
        admin.create_topics([topic])[name].result(CALL_S)
        return Topic(self, name, partitions)

    @property
    def metadata(self) -> Topic:
        """The topic of the events of remote segments; its values are binary."""
        return Topic(self, METADATA_TOPIC, METADATA_PARTITIONS)

    def run_tool(self, java_class: str, *arguments: str) -> str:
        """Run one of Kafka's command line tools on this cluster, and return what it prints."""
        java = [tool("java"), *QUICK_START, "-cp", broker_class_path(self.version), java_class]
        command = [*java, "--bootstrap-server", self.servers, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_S, check=False)
        if done.returncode:
            raise BrokerFailed(f"{java_class} failed\n{done.stdout}{done.stderr}")
        return done.stdout

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until `condition` holds; `BrokerFailed`: time is up, or the controller ended."""
        self.brokers[0].wait(condition, what)
