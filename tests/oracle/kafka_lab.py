"""Kafka's own classes from Python: one long-lived JVM, one call at a time.

    with KafkaLab() as lab:
        lab.make(folder / "t-0", seed=7, records=2000, codec="none,zstd")
        lab.clean(folder / "t-0", folder / "out" / "t-0", now_ms=1_700_000_100_000)
        lab.batches(folder / "out" / "t-0")

README.md has the options of the tools.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self, TypeAlias

from tests.oracle.dumped_segments import DumpedSegments, parse_dump
from tests.oracle.kafka_jars import OLDEST, KafkaLabError, class_path, tool

Option: TypeAlias = bool | int | float | str
Batch: TypeAlias = dict[str, Any]
"""The header fields of a batch and its `records` (LogDump.java), at `pos` in `file`."""
Record: TypeAlias = dict[str, Any]
"""A record (LogDump.java): key and header values are hex, or None; `valueLen` −1 is null."""
SideFiles: TypeAlias = dict[str, list[dict[str, Any]]]
"""Entries of side files by kind, in file order; each has its `file`.

`trailing` lists the indexes whose length is not a multiple of an entry's length.
"""

_SERVER: Final = "org.apache.kafka.storage.internals.log.LabServer"
QUICK_START: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # With many short calls a quick start matters more than peak speed.
)
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


class SelectionCase(NamedTuple):
    """When and with which settings `LogCleanerManager` looks at a log."""

    checkpoint: int
    """The cleaner's checkpoint; −1: none."""
    now_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class KafkaLab:
    """A JVM that runs the tools of `tests/oracle/java` with the classes of one version of Kafka.

    Logs are made and read with the oldest version, and cleaned with any. The first call starts the
    JVM; the next call after a crash starts another. Every method raises `KafkaLabError` with the
    Java stack trace if a tool fails.
    """

    def __init__(
        self, version: str = OLDEST, *, jvm_flags: Sequence[str] = QUICK_START
    ) -> None:
        self.version = version
        self._jvm_flags = tuple(jvm_flags)
        self._process: subprocess.Popen[str] | None = None
        self._stderr: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; a later call starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()  # This closes its input, so it ends.
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def make(self, out_dir: Path, **options: Option) -> dict[str, Any]:
        """Write a log into `out_dir` (named like `topic-0`, emptied first); return its counts."""
        return dict(self._call("make", out=out_dir, **options))

    def replicate(self, src: Path, out: Path, *, roll_at: Iterable[int]) -> list[int]:
        """Copy the log `src` as a follower does, rolling a segment at each offset of `roll_at`.

        Those offsets are base offsets of batches, or the log's end. Return the base offsets of the
        segments in `out` (named like `topic-0`, emptied first), including the active one.
        """
        return list(self._call("replicate", **{"in": src}, out=out, roll_at=sorted(roll_at)))

    def clean(self, src: Path, out: Path, *, now_ms: int, **options: Option) -> dict[str, Any]:
        """Copy the log `src` to `out` and run Kafka's `Cleaner` on the copy; return its statistics.

        `endOffset` is the first offset that was not cleaned; 0: nothing was dirty.
        """
        return dict(self._call("clean", **{"in": src}, out=out, now=now_ms, **options))

    def select(
        self, log: Path, cases: Sequence[SelectionCase], *, log_start_offset: int = 0
    ) -> list[dict[str, Any]]:
        """Return, per case, what `LogCleanerManager` says about the log in the folder `log`."""
        return list(self._call("select", dir=log, log_start_offset=log_start_offset, cases=cases))

    def copy_candidates(self, log: Path, cases: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        """Return, per case, the base offsets of the segments that a broker would upload now.

        A case has `from`, `last_stable_offset`, `now_ms`, and the topic's `settings`, as numbers.
        """
        return list(self._call("copy-candidates", dir=log, cases=cases))

    def batches(self, path: Path) -> list[Batch]:
        """Return every batch, with its records, of all `.log` files of a folder or of one file."""
        return list(self._call("batches", dir=path))

    def side_files(self, path: Path) -> SideFiles:
        """Return all entries of a folder's indexes, snapshots and leader epoch checkpoint."""
        return dict(self._call("side-files", dir=path))

    def fetch(self, tier: Path, partition: Mapping[str, Any], index: int, out: Path) -> None:
        """Fetch a segment's objects as a broker does, through Kafka's own `LocalTieredStorage`.

        `partition` is an entry of `tierfold status`, `index` the segment's index in it. Each object
        is written to the folder `out`, with its suffix as the name.
        """
        segment = partition["segments"][index]
        self._call("fetch", tier=tier, out=out, partition=partition, segment=segment)

    def decompressed(self, payloads: Iterable[tuple[str, bytes]]) -> list[bytes | None]:
        """Return what each payload, of a codec, holds for Kafka's readers; None: they refuse it."""
        asked = [{"codec": codec, "stored": stored.hex()} for codec, stored in payloads]
        found = self._call("decompress", payloads=asked)
        return [None if plain is None else bytes.fromhex(plain) for plain in found]

    def metadata_topics(self, topics: Iterable[Iterable[bytes]]) -> list[dict[str, Any]]:
        """Return, per metadata topic, what brokers make of its records' values.

        `taken` says what each value does to a broker, `views` what it then has, by the text of the
        partition (MetadataMirror.java).
        """
        asked = [[value.hex() for value in topic] for topic in topics]
        return list(self._call("metadata-topics", topics=asked))

    def metadata_events(self, values: Iterable[bytes]) -> list[dict[str, Any] | None]:
        """Return what Kafka's serde reads of each value, and `written`, what it writes for that.

        None: it refuses the value. Empty: an event that tierfold does not know.
        """
        return list(self._call("metadata-events", values=[value.hex() for value in values]))

    def metadata_partitions(self, asked: Iterable[tuple[str, int, int]]) -> list[int]:
        """Return the metadata partition per topic id, partition and number of them."""
        return list(self._call("metadata-partitions", asked=list(asked)))

    def known_settings(self) -> dict[str, dict[str, Any]]:
        """Return Kafka's topic settings: type, default, bounds and the names that brokers use."""
        return dict(self._call("known-settings"))

    def broker_setting_names(self) -> list[str]:
        """Return every setting name that a broker accepts, sorted; a prefix ends in `*`."""
        return list(self._call("broker-names"))

    def resolved_settings(self, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the topic's `values` or `refused`, per case of `broker` and `topic` settings."""
        return list(self._call("resolve-settings", cases=cases))

    def dump_log_segments(self, files: Sequence[Path], *, deep: bool = True) -> DumpedSegments:
        """Return the output of Kafka's `DumpLogSegments` for local files, and every finding.

        First each index file goes through the tool's sanity check, alone, since that stops at its
        first finding.
        The tool reads copies, because it trims a torn offset index to whole entries.
        """
        with tempfile.TemporaryDirectory() as folder:
            copies = {_copied(file, Path(folder)): file for file in files}
            failures = []
            for copy, file in copies.items():
                if file.suffix in (".index", ".timeindex"):
                    arguments = ["--files", str(copy), "--index-sanity-check"]
                    failures.append((file, self._ask("dumplog", arguments=arguments)["failure"]))
            names = ",".join(map(str, copies))
            arguments = ["--files", names, *(["--deep-iteration"] if deep else [])]
            answer = self._ask("dumplog", arguments=arguments)
            texts = [answer["out"], answer["err"], answer["failure"] or ""]
            for copy, file in copies.items():
                texts = [text.replace(str(copy), str(file)) for text in texts]
        dumped = parse_dump(*texts)
        for file, failure in failures:
            dumped = dumped.with_failure(file, failure)
        return dumped

    def consume(
        self, where: Mapping[str, Any], starts: Sequence[int], isolation: str
    ) -> list[dict[str, Any]]:
        """Return, per start, the `records` that Java's consumer gets of a running cluster.

        `where` has `servers`, `topic` and `partition`. `stopped` says why it did not get to the
        end, else it is None. A record is its offset, timestamp, key, checksum and headers
        (ConsumerReads.java).
        """
        return list(self._call("consume", **where, starts=list(starts), isolation=isolation))

    def offsets_for_times(
        self, where: Mapping[str, Any], times_ms: Sequence[int]
    ) -> list[int | None]:
        """Return the offset that Java's consumer finds for each time; None: there is none."""
        return list(self._call("offsets-for-times", **where, times=list(times_ms)))

    def _call(self, name: str, **options: Any) -> Any:
        answer = self._ask(name, **options)
        if answer["failure"]:
            raise KafkaLabError(f"{name} {options}\n{answer['failure']}\n{answer['err'][-2000:]}")
        return answer["result"]

    def _ask(self, name: str, **options: Any) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            request = json.dumps({"tool": name, "options": options}, default=str)
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise KafkaLabError(f"the oracle's JVM ended during {name}: {self._stderr_tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the JVM)
            self._process = subprocess.Popen(
                [tool("java"), *self._jvm_flags, _QUIET, "-cp", class_path(self.version), _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
        return self._process

    def _stderr_tail(self) -> str:
        assert self._process is not None
        assert self._stderr is not None
        self._process.wait()
        self._stderr.seek(0)
        return self._stderr.read()[-4000:]


def is_aborted(batch: Batch, aborted: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `aborted`, the entries of a transaction index, list the batch's transaction."""
    return batch["isTransactional"] and any(
        entry["producerId"] == batch["producerId"]
        and entry["firstOffset"] <= batch["baseOffset"] <= entry["lastOffset"]
        for entry in aborted
    )


def _copied(file: Path, root: Path) -> Path:
    """Copy a file below `root`, with the `.log` and `.index` that the tool reads beside it."""
    folder = root / hashlib.sha256(str(file.parent).encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    for name in {file.name, f"{file.stem}.log", f"{file.stem}.index"}:
        if (file.parent / name).exists():
            shutil.copy2(file.parent / name, folder / name)
    return folder / file.name
