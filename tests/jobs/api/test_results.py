"""Results of the API are frozen, typed and picklable; commands give the same documents."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
import rich.console

import tierfold
from tests.jobs.claims import claimed
from tests.jobs.commands import ALWAYS, in_own_process, told
from tests.jobs.commands import tierfold as command
from tests.jobs.tiers import (
    copied,
    files_below,
    flip_last_byte,
    folder_of,
    key_of,
    put_updates,
    updated_tier,
)
from tests.storage.live_segments import NOW_MS
from tierfold.jobs.reports.result import BY_URGENCY, Result
from tierfold.jobs.reports.views import ALL
from tierfold.storage.catalog.catalog import Catalog

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.0,
    "tier.binding": "detached",
}
AS_OPTIONS: Final = tuple(
    word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")
)
THEN_MS: Final = NOW_MS + 10**9
LATER_MS: Final = THEN_MS + 10**6
ORDERS: Final = key_of("orders")
LOCAL: Final[dict[str, Any]] = {"settings": SETTINGS, "engine": "local", "now_ms": THEN_MS}


@copied
def fresh(folder: Path) -> Path:
    """Two partitions that are due."""
    return updated_tier(folder, [ORDERS, key_of("users")], 2)


@copied
def compacted(folder: Path) -> Path:
    """The same, compacted a while before `THEN_MS`."""
    before = {**LOCAL, "now_ms": THEN_MS - 10**6}
    tierfold.compact(updated_tier(folder, [ORDERS, key_of("users")], 2), **before)
    return folder


@pytest.fixture
def broken(fresh: Path) -> Path:
    """One of the two is corrupt."""
    flip_last_byte(next(folder_of(fresh, ORDERS).glob("*.log")))
    return fresh


KNOWN: Final[dict[str, Any]] = {"settings": SETTINGS, "now_ms": THEN_MS}
VERBS: Final[dict[str, tuple[Callable[[Path], Result[Any]], tuple[str, ...]]]] = {
    "plan": (lambda tier: tierfold.plan(tier, **KNOWN), ()),
    "explain": (
        lambda tier: tierfold.explain(tier, "orders-0", **KNOWN),
        ("plan", "--explain", "orders-0"),
    ),
    "compact": (lambda tier: tierfold.compact(tier, **LOCAL), ()),
    "status": (lambda tier: tierfold.status(tier, topics=["or*"], **KNOWN), ("--topic", "or*")),
    "doctor": (
        lambda tier: tierfold.doctor(tier, storage_price=0.5, **KNOWN),
        ("--storage-price", "0.5"),
    ),
    "verify": (lambda tier: tierfold.verify(tier, **LOCAL), ()),
    "vacuum": (lambda tier: tierfold.vacuum(tier, grace_ms=0, **KNOWN), ("--grace-period", "0s")),
    "history": (lambda tier: tierfold.history(tier, "orders-0", 3, **KNOWN), ("--limit", "3")),
    "restore": (
        lambda tier: tierfold.restore(tier, "orders-0", str(LATER_MS), dry_run=True, **KNOWN),
        ("--to", str(LATER_MS), "--dry-run"),
    ),
    "forget": (
        lambda tier: tierfold.forget(tier, "orders-0", dry_run=True, **KNOWN),
        ("--dry-run",),
    ),
}
"""The call, and the options of the same command."""


def without_ids(document: dict[str, Any]) -> str:
    """The document without what differs from run to run: ids, names of runs, times of commits."""
    text = json.dumps(document)
    text = re.sub(r"\d{8}T\d{6}-[\w-]{8}", "<run>", text)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "<id>", text)
    text = re.sub(r'"(\w+_at_ms|duration_ms|commit_id|committed_at)": [^,}\]]+', r'"\1": 0', text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", ["fresh", "compacted"])
def test_a_function_and_its_command_give_the_same_document(
    verb: str, state: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tier: Path = request.getfixturevalue(state)
    if state == "fresh" and verb == "restore":
        with pytest.raises(tierfold.BadSettings, match="no run has touched"):
            VERBS[verb][0](tier)
        return
    kept = tmp_path / "kept"
    shutil.copytree(tier, kept)
    call, options = VERBS[verb]
    result = call(tier)
    shutil.rmtree(tier)
    shutil.copytree(kept, tier)
    if options[:1] == ("plan",):
        words: tuple[str | Path, ...] = ("plan", tier, *options[1:])
    elif verb in {"history", "restore", "forget"}:
        words = (verb, tier, "orders-0", *options)
    else:
        words = (verb, tier, *options)
    ran = command(*words, *AS_OPTIONS, "--now", str(THEN_MS), "--json")
    assert without_ids(result.to_dict()) == without_ids(ran.document)
    assert result.to_dict() == json.loads(json.dumps(result.to_dict()))
    assert result.outcome in BY_URGENCY
    header = ["schema_version", "kafka_versions", "verb", "tier", "run", "outcome", "reason"]
    assert [*result.to_dict()][: len(header)] == header
    for entry in result.to_dict()["partitions"]:
        assert {"topic", "partition", "topic_id", "outcome", "reason", "notes"} <= entry.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_a_result_is_frozen_and_survives_a_pickle(verb: str, compacted: Path) -> None:
    result = VERBS[verb][0](compacted)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - ours
    assert (again, again.to_dict()) == (result, result.to_dict())
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.tier = "/elsewhere"  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):  # Python 3.11 raises the wrong one.
        result.other = 1  # type: ignore[attr-defined]
    assert not hasattr(result, "__dict__")


@pytest.mark.parametrize("verb", VERBS)
def test_a_result_is_a_frame_a_page_and_a_text(verb: str, compacted: Path) -> None:
    result = VERBS[verb][0](compacted)
    frame = result.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["topic"]) == [one.key.topic for one in result.partitions]
    assert list(frame["outcome"]) == [one.outcome for one in result.partitions]
    page = result._repr_html_()
    assert page.startswith("<pre")
    # Where nothing is wrong, `doctor` names topics only.
    name = "orders" if verb == "doctor" else "orders-0"
    assert name in page
    assert "\x1b" not in page
    assert name in str(result)
    assert repr(result).startswith(f"<{type(result).__name__} of {compacted}: {result.outcome}")


def test_in_the_kernel_of_a_notebook_a_result_is_shown_once(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tierfold.plan(fresh, **KNOWN)
    shown = result._repr_html_(), str(result)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    assert (result._repr_html_(), str(result)) == shown
    assert capsys.readouterr().out == ""


def test_bytes_in_and_out_are_those_of_the_partitions(fresh: Path) -> None:
    planned = tierfold.plan(fresh, settings=SETTINGS)
    assert planned.bytes_in == sum(one.bytes_in for one in planned.partitions) > 0
    done = tierfold.compact(fresh, **LOCAL)
    assert (done.bytes_in, done.run_id[:2]) == (planned.bytes_in, "20")
    assert 0 < done.bytes_out == sum(one.bytes_out for one in done.partitions) < done.bytes_in
    idle = tierfold.compact(fresh, **LOCAL | {"now_ms": LATER_MS})
    assert (idle.outcome, idle.bytes_in, idle.bytes_out) == ("nothing_to_do", 0, 0)


def test_with_check_a_failed_partition_raises_after_all_are_done(broken: Path) -> None:
    result = tierfold.compact(broken, **LOCAL)
    assert {one.key.topic: one.outcome for one in result.partitions} == {
        "orders": "failed",
        "users": "compacted",
    }
    with pytest.raises(tierfold.PartitionFailed) as failed:
        tierfold.verify(broken, check=True, **LOCAL)
    raised = pickle.loads(pickle.dumps(failed.value))  # noqa: S301 - ours
    again = tierfold.verify(broken, **LOCAL).to_dict()
    assert without_ids(raised.result.to_dict()) == without_ids(again)
    assert not told(str(raised), "orders-0: ", "CRC")
    tierfold.verify(broken, topics=["users"], check=True, **LOCAL)


def test_the_reason_is_that_of_the_most_urgent_partitions(broken: Path) -> None:
    put_updates(broken, key_of("a.first"), 0)
    tierfold.compact(broken, topics=["a.first"], **LOCAL)
    result = tierfold.compact(broken, **LOCAL | {"now_ms": LATER_MS})
    idle = result.partitions[0]
    assert (idle.key.topic, idle.outcome, bool(idle.reason)) == ("a.first", "nothing_to_do", True)
    assert result.outcome == "failed"
    assert result.reason.startswith("orders-0: ")
    assert " more)" not in result.reason


def test_a_second_opinion_without_spark_is_refused(fresh: Path) -> None:
    with pytest.raises(tierfold.BadSettings, match=r"--second-opinion: .*needs Spark"):
        tierfold.verify(fresh, engine="local", second_opinion=True)


def test_with_check_a_fenced_run_raises(fresh: Path) -> None:
    def takes_over(progress: tierfold.Progress) -> None:
        if progress.step == "scan" and progress.is_ended:
            claimed(fresh, "another", THEN_MS)

    with pytest.raises(tierfold.RunFenced) as fenced:
        tierfold.compact(fresh, topics=["orders"], progress=takes_over, check=True, **LOCAL)
    assert "another" in fenced.value.result.reason


def test_settings_are_texts_numbers_truths_and_lists(fresh: Path) -> None:
    def reason(settings: Any) -> str:
        (orders, _) = tierfold.plan(fresh, settings=settings).partitions
        return f"{orders.outcome}: {orders.reason}"

    assert reason({"cleanup.policy": ["compact", "delete"]}).startswith("planned")
    assert reason([word for word in ALWAYS if word != "--set"]).startswith("planned")
    assert "(100 %)" in reason({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 1})
    with pytest.raises(tierfold.BadSettings, match=r"--set cleanup.policy.*None"):
        reason({"cleanup.policy": None})
    with pytest.raises(tierfold.BadSettings, match="there is no setting"):
        reason({"preallocat": True})


def test_the_file_of_settings_may_be_named_by_the_environment(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tierfold.plan(fresh).outcome == "nothing_to_do"
    config = tmp_path / "tierfold.toml"
    config.write_text('[topics."*"]\n"cleanup.policy" = "compact"\n', encoding="utf-8")
    monkeypatch.setenv("TIERFOLD_CONFIG", str(config))
    assert tierfold.plan(fresh).outcome == tierfold.plan(fresh, config=config).outcome == "planned"


def test_a_run_without_any_policy_says_so(fresh: Path) -> None:
    said = "No topic here has a cleanup.policy, so nothing is compacted."
    for result in (tierfold.plan(fresh), tierfold.compact(fresh, **LOCAL | {"settings": None})):
        assert [warning[: len(said)] for warning in result.warnings] == [said]
    one_of_two = {"cleanup.policy": "delete"}
    assert tierfold.plan(fresh, settings=one_of_two).warnings == ()


def test_the_settings_of_a_topic_are_those_of_the_command() -> None:
    result = tierfold.config("orders", settings="cleanup.policy=compact")
    ran = command("config", "orders", "--set", "cleanup.policy=compact", "--json")
    assert result.document(ALL) == ran.document
    assert result.settings[0].text == "compact"
    with pytest.raises(tierfold.BadSettings, match="not a valid topic name"):
        tierfold.config("no topic")


def test_one_text_or_number_needs_no_list(fresh: Path) -> None:
    one = tierfold.plan(fresh, topics="orders", partitions=0, settings="cleanup.policy=compact")
    assert [(part.key.topic, part.outcome) for part in one.partitions] == [("orders", "planned")]


def test_partitions_are_numbers_or_patterns(fresh: Path) -> None:
    assert len(tierfold.status(fresh, partitions=[0]).partitions) == 2
    assert len(tierfold.status(fresh, partitions=["0*"]).partitions) == 2
    with pytest.raises(tierfold.BadSettings, match="7"):
        tierfold.status(fresh, partitions=[7])


@pytest.mark.parametrize(
    ("grace", "bytes_going"), [({}, False), ({"grace_ms": None}, False), ({"grace_ms": 0}, True)]
)
def test_a_keyword_that_is_none_has_its_default_and_zero_is_no_default(
    grace: dict[str, Any], bytes_going: bool, compacted: Path
) -> None:
    times = {"now_ms": THEN_MS + 10**6, "settings": SETTINGS, "dry_run": True}
    (orders, _) = tierfold.vacuum(compacted, **times, **grace).partitions
    assert (orders.size_bytes > 0) == bytes_going


def test_an_unknown_keyword_is_refused_and_known_ones_are_shown(fresh: Path) -> None:
    before = files_below(fresh)
    with pytest.raises(TypeError, match=r"compact\(\) has no keyword 'topic'; it takes .*topics"):
        tierfold.compact(fresh, topic="orders")  # type: ignore[call-arg]
    assert files_below(fresh) == before
    shown = inspect.signature(tierfold.compact).parameters
    assert {"tier", "topics", "settings", "spark", "check", "progress", "dry_run"} <= set(shown)
    assert "given" not in shown


def test_progress_begins_goes_on_and_ends(fresh: Path) -> None:
    seen: list[tierfold.Progress] = []
    tierfold.compact(fresh, progress=seen.append, **LOCAL)
    steps = [one.step for one in seen if one.is_ended]
    assert steps == list(dict.fromkeys(one.step for one in seen))
    assert "scan" in steps
    for step in steps:
        mine = [one for one in seen if one.step == step]
        assert (mine[0].bytes_done, mine[-1].is_ended) == (0, True)
        assert [one.bytes_done for one in mine] == sorted(one.bytes_done for one in mine)


def test_a_listener_that_fails_is_logged_once_a_step_and_stops_nothing(
    fresh: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    def fails(progress: tierfold.Progress) -> None:
        calls.append(progress.step)
        raise RuntimeError("the notebook is gone")

    assert tierfold.compact(fresh, progress=fails, **LOCAL).outcome == "compacted"
    assert len(calls) == len(set(calls)) == len(caplog.records) > 1
    assert "the notebook is gone" in caplog.text
    assert not any(row.owner_run for row in Catalog(str(fresh / "_tierfold")).read().values())


def test_mistakes_are_logged_and_in_the_result(
    fresh: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unbound = SETTINGS | {"tier.binding": "bound"}
    result = tierfold.compact(fresh, settings=unbound, engine="local")
    (warning,) = result.warnings
    assert "If brokers serve this tier" in warning
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("WARNING", warning)]


@pytest.mark.parametrize(
    ("words", "said"), [((), 1), (("-q",), 0), (("-v",), 5)], ids=["usual", "quiet", "verbose"]
)
def test_the_command_line_prints_what_is_logged(
    words: tuple[str, ...], said: int, fresh: Path
) -> None:
    ran = command("compact", fresh, *ALWAYS, *words)
    assert ran.code == 0
    lines = ran.stderr.splitlines()
    assert (len(lines) >= said) if said > 1 else (len(lines) == said), lines
    assert ("warning: No brokers are named" in ran.stderr) == (words != ("-q",))
    assert ("orders-0: compacts 2 segments" in ran.stderr) == (words == ("-v",))
    assert ("scan begins" in ran.stderr) == (words == ("-v",))


def test_an_error_that_stops_the_verb_is_a_document_too(tmp_path: Path) -> None:
    ran = command("compact", tmp_path / "none", "--json")
    assert (ran.code, ran.document["outcome"], ran.document["partitions"]) == (
        2,
        "bad_settings",
        [],
    )
    assert ran.stderr == f"tierfold: {ran.document['reason']}\n"


LAZY: Final = """
import sys, tierfold.storage.tiers.tier_uris, tierfold
print(sorted({"pyspark", "rich", "deltalake"} & set(sys.modules)),
      sorted(name for name in sys.modules if name.startswith("tierfold.jobs")))
assert sorted(tierfold.__all__) == sorted(set(dir(tierfold)) & set(tierfold.__all__))
for name in tierfold.__all__:
    assert getattr(tierfold, name).__module__.startswith("tierfold."), name
try:
    tierfold.compat
except AttributeError as error:
    print(error)
"""


def test_a_worker_that_imports_storage_imports_neither_spark_nor_the_api() -> None:
    ran = in_own_process(sys.executable, "-c", LAZY)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "[] []",
        "module 'tierfold' has no attribute 'compat'",
    ]
