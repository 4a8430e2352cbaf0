"""`tierfold restore --copy` on Aiven's layout and on S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jobs.aiven import CASES, AivenCase
from tests.jobs.claims import ORDERS
from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.restores import DETACHED, LATER, NOW
from tests.jobs.tiers import latest_updates, records_in, updated_tier
from tests.storage.emulators import s3, s3_client, s3_environment, uploaded
from tests.storage.tiers.aiven_tiers import aiven_tier


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return updated_tier(tmp_path_factory.mktemp("local") / "tier", (ORDERS,), segments=3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_works_on_aivens_layout(uploads: Path, tmp_path: Path, case: AivenCase) -> None:
    made = aiven_tier(uploads, tmp_path / "tier", case.variant)
    say = case.arguments
    assert tierfold("compact", made, *ALWAYS, *NOW, *DETACHED, *say).code == 0
    states = tierfold("history", made, "orders-0", *say, "--json").entry["history"]
    before = case.segments(made)
    to = str(states[-1]["committed_at_ms"])
    ran = tierfold("restore", made, "orders-0", "--to", to, "--copy", *NOW, *say, "--json")
    copies = ran.ends(0, "restored")["copies"]
    after = case.segments(made)
    for copy in copies:
        assert after[copy["id"]].parts == before[copy["copy_of"]].parts
    assert after.keys() - before.keys() == {copy["id"] for copy in copies}
    vacuumed = tierfold("vacuum", made, *DETACHED, *LATER, *say, "--json")
    assert vacuumed.entry["outcome"] == "vacuumed"
    assert case.segments(made).keys() == {copy["id"] for copy in copies}
    status = tierfold("status", made, *say, "--json", "--segments").entry
    live = {key: value for _, key, value in records_in(case.live_logs(made, status, tmp_path))}
    assert live == latest_updates(3)
    again = tierfold("compact", made, *ALWAYS, *LATER, *DETACHED, *say, "--json")
    assert again.entry["outcome"] == "compacted"
    assert tierfold("verify", made, *say).code == 0


@pytest.fixture
def s3_tier(uploads: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment(s3()).items():
        monkeypatch.setenv(name, value)
    return uploaded(uploads, s3())


def on_s3(tier: str, folder: Path, status: dict[str, Any]) -> dict[bytes | None, bytes | None]:
    bucket = tier.removeprefix("s3://").partition("/")[0]
    logs = []
    for segment in status["segments"]:
        key = segment["log"].removeprefix(f"s3://{bucket}/")
        logs.append(folder / Path(key).name)
        s3_client(s3()).download_file(bucket, key, str(logs[-1]))
    return {key: value for _, key, value in records_in(logs)}


def test_it_works_on_s3(s3_tier: str, tmp_path: Path) -> None:
    assert tierfold("compact", s3_tier, *ALWAYS, *NOW, *DETACHED).code == 0
    states = tierfold("history", s3_tier, "orders-0", "--json").entry["history"]
    to = str(states[-1]["committed_at_ms"])
    ran = tierfold("restore", s3_tier, "orders-0", "--to", to, "--copy", *NOW, "--json")
    entry = ran.ends(0, "restored")
    requests = ran.document["requests"]
    assert (requests["begins"], requests["completes"]) == (15, 15)
    assert (requests["sent_bytes"], requests["puts"]) == (0, 0)
    assert entry["objects_written"] == 15
    assert tierfold("vacuum", s3_tier, *DETACHED, *LATER).code == 0
    status = tierfold("status", s3_tier, "--json", "--segments").entry
    assert [one["id"] for one in status["segments"]] == [one["id"] for one in entry["copies"]]
    assert on_s3(s3_tier, tmp_path, status) == latest_updates(3)
    assert tierfold("compact", s3_tier, *ALWAYS, *LATER, *DETACHED).code == 0
    assert tierfold("verify", s3_tier).code == 0
