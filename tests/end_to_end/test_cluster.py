"""spark-submit compacts on a real standalone cluster whose workers lack tierfold."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.end_to_end.planted_secrets import command_lines, files_below, holding, objects_in
from tests.end_to_end.processes import (
    Application,
    awaited,
    python_workers,
    reading,
    signalled,
    unfinished_objects,
    writing,
)
from tests.end_to_end.spark_cluster import Cluster, Daemon, bare_python, spark_cluster
from tests.faults.kills.killed_checks import hidden_files, unnamed
from tests.faults.kills.killed_logs import LARGE, large_newest, put_large
from tests.jobs.commands import ALWAYS, ROOT, Ran, in_own_process, status_of, tierfold
from tests.jobs.sources.planned_reads import planned_read
from tests.jobs.tiers import key_of, made_tier, put_updates, sample_copy
from tests.storage.emulators import (
    IDENTITY,
    free_port,
    moto,
    s3_client,
    s3_environment,
    uploaded,
)
from tierfold.jobs.sources.segment_source import KafkaSegments
from tierfold.storage.segments.segment_reader import Batch, read_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER

# CI has Spark on one machine (test_spark_executor.py, test_killed_workers.py), the archive that a
# cluster gets (test_cluster_archive.py), and the simulation's "task ran twice".
pytestmark = pytest.mark.soak

NOW = ("--now", "1800000000000")
LATER = ("--now", "1800003600000", "--clock-is-right")
LARGE_SEGMENTS = 12
ONE_GROUP_EACH = ("--set", "segment.bytes=1")
SPECULATING = ("--conf=spark.speculation=true", "--conf=spark.speculation.quantile=0.5")
"""Once half of a stage's tasks are done, Spark starts a second attempt of each slow one."""

PLANTED_KEY_ID = "AKIAPLANTEDINPROFILE"
PLANTED_SECRET = "a-planted/secret+of-a-file"
SEARCHED = {
    "read.pickles": b"http://127.0.0.1",  # The endpoint travels.
    "events_": b"SparkListenerTaskEnd",
    "/stderr": b"Spark",
    "application-": b"outcome",
    "_tierfold/partitions/": b"orders",
    "_tierfold/runs/": b"compact",
    "a planned read": b"orders",
    "command lines": b"compact_twice.py",
    "output 2": b"nothing_to_do",
}
"""By place that is searched for secrets, a text that must be found there."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    python = bare_python(tmp_path_factory.mktemp("bare") / "python")
    with pytest.MonkeyPatch.context() as patch:
        # Executors get their credentials only from their own environment.
        for name, value in s3_environment(moto()).items():
            patch.setenv(name, value)
        with spark_cluster(tmp_path_factory.mktemp("cluster"), python) as running:
            yield running


@pytest.fixture(scope="module")
def linked(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of links to the content of `archive`, cheap to send and unpack.

    The links lead to a copy, so that an executor that compiles a kernel does not change `unpacked`.
    """
    folder = tmp_path_factory.mktemp("linked")
    copy = Path(shutil.copytree(unpacked, folder / "content", copy_function=os.link))
    with tarfile.open(folder / "links.tar.gz", "w:gz") as packed:
        for path in copy.iterdir():
            link = tarfile.TarInfo(path.name)
            link.type, link.linkname = tarfile.SYMTYPE, str(path)
            packed.addfile(link)
    return folder / "links.tar.gz"


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, and small topics beside it."""
    folder = sample_copy(tmp_path_factory.mktemp("tier"))
    for topic in ("orders", "users"):
        for partition in range(2):
            for number in range(3):
                put_updates(folder, key_of(topic, partition), number)
    return folder


def _copied(tier: Path) -> Path:
    copy = tier.with_name(f"{tier.name}-copy-{len(list(tier.parent.iterdir()))}")
    return Path(shutil.copytree(tier, copy))


def _live(tier: Path) -> dict[tuple[str, int], list[tuple[int, list[Batch]]]]:
    """The live segments by partition: their start offsets and batches."""
    return {
        place: [
            (segment["start_offset"], list(read_segment(Path(segment["log"])).batches()))
            for segment in entry["segments"]
        ]
        for place, entry in status_of(tier).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A tier in a folder and a copy in a bucket, compacted on the cluster by one application."""

    folder: Path
    uri: str
    in_folder: Ran
    in_bucket: Ran
    answers: Path
    """What `compact_twice.py` wrote, and Spark's event log."""
    planned: bytes
    """What Spark sends to its workers so that they read the bucket."""
    commands: set[str]
    """The command lines of all processes during the run."""
    local: Ran
    """A run of the same tier without Spark."""
    here: Path
    """The tier after that run."""


@pytest.fixture(scope="module")
def compacted(
    cluster: Cluster, archive: Path, tier: Path, tmp_path_factory: pytest.TempPathFactory
) -> Compacted:
    folder, here = _copied(tier), _copied(tier)
    uri = uploaded(here, moto())
    answers = tmp_path_factory.mktemp("answers")
    options = ("--json", *NOW, *ALWAYS)
    logged = [
        "--conf=spark.eventLog.enabled=true",
        "--conf=spark.eventLog.compress=false",
        f"--conf=spark.eventLog.dir=file://{answers}",
    ]
    job = ROOT / "tests" / "end_to_end" / "compact_twice.py"
    application = (*logged, job, answers, folder, uri, *options)
    with command_lines() as commands, cluster.submitted(archive, *application) as submitted:
        done = submitted.ended()
    assert done.code == 0, done.stderr
    documents = ((answers / f"{name}.json").read_text() for name in ("folder", "bucket"))
    in_folder, in_bucket = (replace(done, stdout=document) for document in documents)
    assert f"{in_folder.stdout}\n{in_bucket.stdout}\n" == done.stdout
    return Compacted(
        folder=folder,
        uri=uri,
        in_folder=in_folder,
        in_bucket=in_bucket,
        answers=answers,
        planned=planned_read(KafkaSegments({"path": uri})),
        commands=commands,
        local=tierfold("compact", here, *options),
        here=here,
    )


def test_the_result_equals_that_of_a_local_run(compacted: Compacted) -> None:
    outcomes = compacted.local.outcomes
    assert compacted.in_folder.outcomes == outcomes
    assert set(outcomes.values()) == {"compacted"}
    assert len(outcomes) == 5
    assert _live(compacted.folder) == _live(compacted.here)
    assert tierfold("verify", compacted.folder).code == 0


def test_a_bucket_needs_no_shared_folder(compacted: Compacted) -> None:
    done, local = compacted.in_bucket, compacted.local
    assert done.outcomes == local.outcomes
    for name in ("bytes_in", "bytes_out", "counts", "segments_out"):
        assert {place: report[name] for place, report in done.partitions.items()} == {
            place: report[name] for place, report in local.partitions.items()
        }
    assert done.document["requests"]["puts"] >= 5 * len(local.outcomes)  # The workers' count.
    assert json.loads((compacted.answers / "read.json").read_text()) == sorted(
        [*place, record.offset]
        for place, segments in _live(compacted.here).items()
        for _, batches in segments
        for batch in batches
        for record in batch.records
        if record.control_type is None
    )


def test_planted_secrets_appear_nowhere(
    cluster: Cluster, compacted: Compacted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Spark they are in the environment; without it in a profile, files of settings, a URI."""
    tier = compacted.uri
    bucket = tier.removeprefix("s3://").partition("/")[0]
    profile, config = tmp_path / "credentials", tmp_path / "tierfold.toml"
    client = tmp_path / "client.properties"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nrequest.timeout.ms=1000\n"
        f"sasl.username=u\nsasl.password={PLANTED_SECRET}\n"
    )
    profile.write_text(
        f"[planted]\naws_access_key_id = {PLANTED_KEY_ID}\n"
        f"aws_secret_access_key = {PLANTED_SECRET}"
    )
    config.write_text(f'[store]\n"secret.access.key" = "{PLANTED_SECRET}"\n')
    for name in IDENTITY.keys() - {"AWS_REGION"}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "planted")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    command = (sys.executable, "-m", "tierfold", "compact")
    options = ("--engine", "local", "--json", *ALWAYS, *LATER)
    with command_lines() as commands:
        local = in_own_process(*command, tier, *options)
        brokers = ("--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", client)
        asked = in_own_process(*command[:-1], "status", tier, "--json", *brokers)
    assert (local.code, set(local.outcomes.values())) == (0, {"nothing_to_do"})
    assert asked.code == 3
    assert "nothing listens on this port" in asked.stdout
    refused = tierfold("compact", tier, *options, "--config", config)
    refused.refuses("there is no option")
    with_secret = f"s3://{PLANTED_KEY_ID}:{PLANTED_SECRET}@{bucket}/tier"
    in_uri = tierfold("compact", with_secret, *options)
    in_uri.refuses("credentials come from the environment")
    found = {
        **files_below(cluster.folder, "*.log", "*.out", "*.err", "stdout", "stderr"),
        **files_below(compacted.answers, "*"),
        **objects_in(s3_client(moto()), bucket),
        "a planned read": compacted.planned,
        "command lines": "\n".join(compacted.commands | commands).encode(),
    }
    runs = (compacted.in_folder, compacted.in_bucket, local, asked, refused, in_uri)
    for number, ran in enumerate(runs):
        found[f"output {number}"] = f"{ran.stdout}{ran.stderr}".encode()
    assert len(holding(files_below(tmp_path, "*"), (PLANTED_SECRET,))) == 3
    for where, text in SEARCHED.items():
        assert any(text in found[name] for name in found if where in name), where
    keys = (value for name, value in IDENTITY.items() if name != "AWS_REGION")
    assert holding(found, (PLANTED_KEY_ID, PLANTED_SECRET, *keys)) == []


def test_no_executor_compiled_a_kernel(compacted: Compacted) -> None:
    answers = json.loads((compacted.answers / "kernels.json").read_text())
    assert len({answer["executor"] for answer in answers}) == 2
    for answer in answers:
        assert answer["home"].startswith(f"{answer['executor']}/tierfold/")
        assert "tierfold.storage.kafka.records._decode" in answer["loaded"]
        assert answer["compiled"] == []


def test_a_worker_that_is_killed_during_a_run_costs_only_time(
    cluster: Cluster, linked: Path, tmp_path: Path
) -> None:
    made = made_tier(tmp_path / "tier")
    put_large(made, LARGE_SEGMENTS)
    here = _copied(made)
    options = ("--json", *NOW, *ALWAYS, *ONE_GROUP_EACH)
    victim = cluster.workers[0]
    try:
        with cluster.submitted(linked, "jobs/compact_job.py", made, *options) as submitted:
            awaited("a Python worker", lambda: python_workers(victim.family()) or None)
            awaited("a task that reads", lambda: _reading(victim, submitted, made), 0.002)
            victim.kill()
            done = submitted.ended()
    finally:
        cluster.add_worker()
    assert done.code == 0, done.stderr
    assert tierfold("compact", here, *options).outcomes == done.outcomes
    assert _live(made) == _live(here)
    assert tierfold("verify", made).code == 0


def test_a_task_that_runs_twice_is_committed_once(
    cluster: Cluster, linked: Path, tmp_path: Path
) -> None:
    made = made_tier(tmp_path / "tier")
    newest = put_large(made, LARGE_SEGMENTS)
    here = _copied(made)
    options = ("--json", *NOW, *ALWAYS, *ONE_GROUP_EACH)
    job = (*SPECULATING, "jobs/compact_job.py", made, *options)
    with cluster.submitted(linked, *job) as submitted:
        awaited("a Python worker", lambda: _working(cluster) or None)
        # Not a key index: each attempt writes its own one for its own segment.
        tier = made / TIER_FOLDER
        slow = awaited("a worker that writes", lambda: _writing(cluster, submitted, tier), 0.002)
        signalled(slow, signal.SIGSTOP)
        unfinished = unfinished_objects(slow, tier)
        awaited("a second attempt", lambda: _has_twin(made, unfinished), 0.002)
        signalled(slow, signal.SIGCONT)
        done = submitted.ended()
    assert done.code == 0, done.stderr
    local = tierfold("compact", here, *options)
    report, expected = done.partitions["large", 0], local.partitions["large", 0]
    for what in ("outcome", "counts", "objects_written", "segments_out", "bytes_out"):
        assert report[what] == expected[what], what
    assert _live(made) == _live(here)
    status = status_of(made)["large", 0]
    assert large_newest(status) == newest
    assert unnamed(made, LARGE, status) == set(status["orphans"]) != set()
    assert tierfold("verify", made).code == 0


def _working(cluster: Cluster) -> set[int]:
    """The Python workers on the cluster."""
    return {pid for worker in cluster.workers for pid in python_workers(worker.family())}


def _reading(worker: Daemon, submitted: Application, tier: Path) -> set[int] | None:
    """The worker's processes that read the tier."""
    assert submitted.process.poll() is None, submitted.stderr.read_text()
    return reading(worker.family(), tier) or None


def _writing(cluster: Cluster, submitted: Application, tier: Path) -> int | None:
    """A Python worker on the cluster that is writing an object."""
    assert submitted.process.poll() is None, submitted.stderr.read_text()
    return min(writing(_working(cluster), tier), default=None)


def _has_twin(tier: Path, unfinished: set[Path]) -> bool | None:
    """Whether another worker writes a segment with the start offset of an unfinished one."""
    starts = {path.name[:21] for path in unfinished}
    others = {path.name[:21] for path in hidden_files(tier) if path not in unfinished}
    return bool(starts & others) or None
