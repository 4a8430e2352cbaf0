"""Kafka's own classes from Python: one long-lived JVM, one call at a time.

    with KafkaLab() as lab:
        lab.make(folder / "t-0", seed=7, records=2000, codec="none,zstd")
        lab.clean(folder / "t-0", folder / "out" / "t-0", now_ms=1_700_000_100_000)
        lab.batches(folder / "out" / "t-0")

Option names are those of the Java tools (README.md) with underscores.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import (
    IO,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Self,
    TypeAlias,
    TypedDict,
    cast,
)

from tests.oracle.dumped_segments import DumpedSegments, parse_dump
from tests.oracle.kafka_jars import KafkaLabError, class_path, java

Option: TypeAlias = bool | int | float | str
_Said: TypeAlias = tuple[str, str, str | None]
"""A tool's standard output, its standard error, and the stack trace where it failed."""
Tool: TypeAlias = Literal[
    "make", "replicate", "clean", "dump", "fetch", "select", "dumplog", "settings"
]

_SERVER: Final = "org.apache.kafka.storage.internals.log.LabServer"
QUICK_START: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # many short calls: start-up counts for more than peak speed
)
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_DEDUPE_BYTES: Final = "4m"
"""Holds 157,000 keys, far above any test's log; the default of 128m is allocated anew per call."""


class MadeLog(TypedDict):
    """What LogMaker wrote; times in ms."""

    dir: str
    records: int
    tombstones: int
    batches: int
    markers: int
    abortedTxns: int
    emptyBatches: int
    segments: int
    logBytes: int
    logEndOffset: int
    lastStableOffset: int
    activeSegmentBase: int
    firstTimestamp: int
    lastTimestamp: int
    openTxnProducer: int
    seconds: float
    mbPerSec: float


class Record(TypedDict):
    """A record as Kafka's classes read it; key and header values in hex, null as None."""

    offset: int
    timestamp: int
    sequence: int
    key: str | None
    valueLen: int
    """−1: null."""
    valueCrc32: str | None
    headers: list[list[str | None]]
    controlType: NotRequired[str]
    coordinatorEpoch: NotRequired[int]


class Batch(TypedDict):
    """A record batch with its header fields as Kafka's classes read them."""

    file: str
    pos: int
    size: int
    baseOffset: int
    lastOffset: int
    magic: int
    attributes: int
    codec: str
    producerId: int
    epoch: int
    baseSequence: int
    lastSequence: int
    partitionLeaderEpoch: int
    isTransactional: bool
    isControl: bool
    timestampType: str
    baseTimestamp: int
    maxTimestamp: int
    deleteHorizonMs: int | None
    count: int
    crc: int
    valid: bool
    records: list[Record]


class SelectionCase(NamedTuple):
    """What `LogCleanerManager` is asked about a log."""

    checkpoint: int
    """The cleaner's checkpoint; −1: none."""
    now_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Selected(TypedDict):
    """What `LogCleanerManager` says of a log at one time."""

    firstDirtyOffset: int
    firstUncleanableDirtyOffset: int
    """As `cleanableOffsets` has it: it may lie inside a segment."""
    forceUpdateCheckpoint: bool
    firstUncleanableOffset: int
    """Down to a segment's base, by `calculateCleanableBytes`."""
    cleanableBytes: int
    cleanBytes: int
    maxCompactionDelayMs: int
    lastStableOffset: int
    activeSegmentBase: int


class SideFiles(TypedDict):
    """The entries of a folder's side files in file order; each dict names its `file`."""

    index: list[dict[str, Any]]
    timeindex: list[dict[str, Any]]
    txnindex: list[dict[str, Any]]
    snapshot: list[dict[str, Any]]
    leaderEpoch: list[dict[str, Any]]
    trailing: list[dict[str, Any]]
    """Index files whose length is no multiple of an entry's."""


class KafkaLab:
    """A JVM that runs the tools of `tests/oracle/java`.

    The first call starts it, and the first after a crash starts another.

    Every method raises `KafkaLabError` with the Java stack trace where a tool fails.
    """

    def __init__(self, jvm_flags: Sequence[str] = QUICK_START) -> None:
        self._jvm_flags = tuple(jvm_flags)
        self._process: subprocess.Popen[str] | None = None
        self._stderr: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; a later call starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()  # closes its input, which ends it
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def make(self, out_dir: Path, **options: Option) -> MadeLog:
        """Write a log into `out_dir` (named like `topic-0`, emptied first) by `UnifiedLog`."""
        return cast(MadeLog, json.loads(self._call("make", {"out": out_dir.as_posix(), **options})))

    def replicate(self, src: Path, out: Path, *, roll_at: Iterable[int]) -> list[int]:
        """Write the log `src` anew as a follower does, with a segment border at each of `roll_at`.

        Those are base offsets of batches, or the log's end. The base offsets of the segments in
        `out` (named like `topic-0`, emptied first), the active one included.
        """
        options: dict[str, Option] = {
            "in": src.as_posix(),
            "out": out.as_posix(),
            "roll-at": ",".join(map(str, sorted(roll_at))),
        }
        return cast(list[int], json.loads(self._call("replicate", options)))

    def clean(
        self,
        src: Path,
        out: Path,
        *,
        now_ms: int | Sequence[int],
        first_dirty: int | Literal["auto"] = "auto",
        uncleanable: int | Literal["auto"] = "auto",
        **options: Option,
    ) -> dict[str, Any]:
        """Copy the log `src` to `out` and run Kafka's `Cleaner` on the copy, one pass per time.

        The result names the segments before and after and, under `passes`, each pass's offsets
        and statistics; a pass that found nothing dirty says `endOffset` 0.
        """
        times = [now_ms] if isinstance(now_ms, int) else now_ms
        given: dict[str, Option] = {
            "in": src.as_posix(),
            "out": out.as_posix(),
            "now": ",".join(map(str, times)),
            "first-dirty": ",".join([str(first_dirty)] * len(times)),
            "uncleanable": uncleanable,
            "dedupe-bytes": _DEDUPE_BYTES,
        }
        return cast(dict[str, Any], json.loads(self._call("clean", given | options)))

    def select(
        self, log: Path, cases: Sequence[SelectionCase], *, log_start_offset: int = 0
    ) -> list[Selected]:
        """What `LogCleanerManager` says of the log in the folder `log`, a result per case."""
        options: dict[str, Option] = {
            "dir": log.as_posix(),
            "log-start-offset": log_start_offset,
            "cases": ",".join(":".join(map(str, case)) for case in cases),
        }
        return cast(list[Selected], json.loads(self._call("select", options)))

    def batches(self, path: Path) -> list[Batch]:
        """Every batch, with its records, of all `.log` files of a folder (or of one file)."""
        found: list[Batch] = []
        for line in self._dump(path, aux=False):
            if line.pop("t") == "batch":
                line["records"] = []
                found.append(cast(Batch, line))
            else:
                found[-1]["records"].append(cast(Record, line))
        return found

    def side_files(self, path: Path) -> SideFiles:
        """All entries of a folder's indexes, producer snapshots and leader epoch checkpoint."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in SideFiles.__annotations__}
        for line in self._dump(path, aux=True):
            found[line.pop("t")].append(line)
        return cast(SideFiles, found)

    def fetch(self, tier: Path, partition: Mapping[str, Any], index: int, out: Path) -> None:
        """Fetch a segment's objects as a broker does, through Kafka's own `LocalTieredStorage`.

        `partition` is what `tierfold status` prints of it, `index` the segment's place in it. Each
        object lands in the folder `out` under its suffix.
        """
        segment = partition["segments"][index]
        epochs = (f"{entry['epoch']}:{entry['start_offset']}" for entry in segment["leader_epochs"])
        options: dict[str, Option] = {
            "tier": tier.as_posix(),
            "out": out.as_posix(),
            "segment-id": segment["id"],
            "epochs": ",".join(epochs),
        }
        options |= {name: partition[name] for name in ("topic", "partition", "topic_id")}
        numbers = ("start_offset", "end_offset", "size_bytes", "max_timestamp_ms")
        self._call("fetch", options | {name: segment[name] for name in numbers})

    def known_settings(self) -> dict[str, dict[str, Any]]:
        """Every topic setting of Kafka's: type, default, bounds, the broker's names for it."""
        known: dict[str, dict[str, Any]] = json.loads(self._call("settings", {}))
        return known

    def names_of_brokers(self) -> list[str]:
        """Every name that a broker's settings may have, sorted; `*` at the end: a prefix."""
        names: list[str] = json.loads(self._call("settings", {"of-brokers": "true"}))
        return names

    def resolved_settings(self, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Per case of `broker` and `topic` settings: the `values` of the topic, or `refused`."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(cases, file)
            file.flush()
            answers: list[dict[str, Any]] = json.loads(self._call("settings", {"cases": file.name}))
        return answers

    def dump_log_segments(self, files: Sequence[Path], *, deep: bool = True) -> DumpedSegments:
        """What Kafka's `DumpLogSegments` prints of local files, and every finding.

        Index files go through its sanity check first, one by one, since that check ends at its
        first finding. The tool reads copies: it trims a torn offset index to whole entries.
        """
        with tempfile.TemporaryDirectory() as folder:
            copies = {_copied(file, Path(folder)): file for file in files}
            failures = []
            for copy, file in copies.items():
                if file.suffix in (".index", ".timeindex"):
                    arguments = ["--files", str(copy), "--index-sanity-check"]
                    failures.append((file, self._ask("dumplog", arguments)[2]))
            names = ",".join(map(str, copies))
            arguments = ["--files", names, *(["--deep-iteration"] if deep else [])]
            texts = self._ask("dumplog", arguments)
            for copy, file in copies.items():
                texts = _renamed(texts, str(copy), str(file))
        dumped = parse_dump(*texts)
        for file, failure in failures:
            dumped = dumped.with_failure(file, failure)
        return dumped

    def _dump(self, path: Path, *, aux: bool) -> Iterator[dict[str, Any]]:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            options: dict[str, Option] = {"dir": path.as_posix(), "out": file.name}
            self._call("dump", options | {"aux": aux, "batches": not aux, "records": not aux})
            for line in Path(file.name).read_text(encoding="ascii").splitlines():
                yield json.loads(line)

    def _call(self, tool: Tool, options: dict[str, Option]) -> str:
        arguments = []
        for name, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += ["--" + name.replace("_", "-"), text]
        out, err, failure = self._ask(tool, arguments)
        if failure:
            raise KafkaLabError(f"{tool} {' '.join(arguments)}\n{failure}\n{err[-2000:]}")
        return out

    def _ask(self, tool: Tool, arguments: Sequence[str]) -> _Said:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"tool": tool, "args": list(arguments)}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise KafkaLabError(f"the oracle's JVM ended during {tool}: {self._last_words()}")
        answer = json.loads(line)
        return answer["out"], answer["err"], answer["failure"]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the JVM)
            self._process = subprocess.Popen(
                [java(), *self._jvm_flags, _QUIET, "-cp", class_path(), _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
        return self._process

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._stderr is not None
        self._process.wait()
        self._stderr.seek(0)
        return self._stderr.read()[-4000:]


def _copied(file: Path, root: Path) -> Path:
    """A copy below `root`, beside copies of the `.log` and `.index` that an index is checked by."""
    folder = root / hashlib.sha256(str(file.parent).encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    for name in {file.name, f"{file.stem}.log", f"{file.stem}.index"}:
        if (file.parent / name).exists():
            shutil.copy2(file.parent / name, folder / name)
    return folder / file.name


def _renamed(texts: _Said, copy: str, original: str) -> _Said:
    out, err, failure = texts
    failure = failure.replace(copy, original) if failure else failure
    return out.replace(copy, original), err.replace(copy, original), failure
