"""`--publish` and the options beside it, and what a document says of brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import files_below, key_of, updated_tier
from tierfold.compaction.model.errors import BadSettings

DETACHED = ("--set", "tier.binding=detached")
LOCAL = ("--engine", "local")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", (key_of("orders"),), segments=3)


@pytest.mark.parametrize("verb", ["plan", "compact"])
def test_publishing_needs_brokers(tier: Path, tmp_path: Path, verb: str) -> None:
    before = files_below(tier)
    ran = tierfold(verb, str(tier), *ALWAYS, "--publish")
    assert ran.code == 2
    assert not told(ran.stderr, "--publish: publishing is on", "Name them with --bootstrap-server")
    config = tmp_path / "tierfold.toml"
    config.write_text("[cluster]\npublish = true\n")
    ran = tierfold(verb, str(tier), *ALWAYS, "--config", str(config))
    assert ran.code == 2
    assert not told(ran.stderr, "publish under [cluster]", "add --no-publish")
    assert files_below(tier) == before
    more = LOCAL if verb == "compact" else ()
    ran = tierfold(verb, str(tier), *ALWAYS, "--config", str(config), "--no-publish", *more)
    assert ran.code == 0, ran
    # A verb that does not publish has no use for it.
    assert tierfold("status", str(tier), "--config", str(config)).code == 0


def test_another_canary_is_refused(tier: Path) -> None:
    assert tierfold("plan", str(tier), *ALWAYS, "--canary", "some").code == 2
    with pytest.raises(BadSettings, match="'some' is not one of off, borders, all"):
        api.plan(tier, canary="some")  # type: ignore[arg-type]


def test_a_document_says_what_brokers_learn(tier: Path) -> None:
    for words in (("plan",), ("plan", "--explain", "orders-0"), ("compact", "--dry-run")):
        verb, *more = words
        for binding, publishing in (((), "brokers_not_named"), (DETACHED, "no_brokers")):
            ran = tierfold(verb, str(tier), *ALWAYS, *more, *binding, "--json")
            assert (ran.document["publishing"], ran.document["warnings"]) == (publishing, [])
            assert not {"events_planned", "events_sent", "publishing"} & ran.entries[0].keys()
    ran = tierfold("compact", str(tier), *ALWAYS, *LOCAL, "--json")
    assert ran.document["publishing"] == "brokers_not_named"
    (said,) = ran.document["warnings"]
    assert not told(said, "No brokers are named, so none learn of this", "tier.binding=detached")
    whole = ("--first-dirty", "0", "--json")
    again = tierfold("compact", str(tier), *ALWAYS, *LOCAL, *DETACHED, *whole)
    assert (again.document["publishing"], again.document["warnings"]) == ("no_brokers", [])


def test_the_text_says_it_too(tier: Path) -> None:
    ran = tierfold("compact", str(tier), *ALWAYS, *LOCAL)
    assert "none learn of this run" in ran.stderr
