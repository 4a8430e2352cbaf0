"""Plan files: what `tierfold plan --out` writes and `tierfold compact --plan` carries out.

A plan file is the document of `plan` and two things more: under `approval` what holds for the whole
plan, and in each planned entry, under `approved`, the facts that it was made from. The digest
shows that a file was cut off or edited; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tierfold.compaction.commits.clocks import BEHIND_MAX_MS
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.approval import Approved, PlannedRound
from tierfold.jobs.context.documents import read_document
from tierfold.jobs.context.timestamps import timestamp_text

FORMAT: Final = 1
"""Of `approval` and `approved`; what is compared differently raises it."""

_FACTS: Final = ("row", "segments", "round")
"""The fields of `Approved` that no other part of the file has."""

_AGAIN: Final = "Give the file that `tierfold plan --out FILE` wrote, unchanged, or plan again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An approved plan."""

    where: str
    """The file, for messages."""
    tier: str
    """Where the tier is."""
    catalog: str
    now_ms: int
    """For which time the plan's decisions were made."""
    publishing: str
    """What brokers would learn of the run, a `Publishing`."""
    given: Mapping[str, Any]
    """The keywords of `plan` that decide."""
    partitions: Mapping[PartitionKey, Approved]
    """The partitions that were planned."""

    def check_place(self, tier: str) -> None:
        """Raise BadSettings if the plan is of another tier."""
        if tier != self.tier:
            raise BadSettings(
                f"it is the plan of another tier, {self.tier}, and this one is {tier}",
                where=f"--plan {self.where}",
                remedy="Name the tier as it was planned.",
            )

    def check_run(self, catalog: str, publishing: str, begun_ms: int) -> None:
        """Raise BadSettings if the run has another catalog, publishes otherwise, or is too early.

        `begun_ms`: when the run began, by the machine's clock.
        """
        if self.now_ms > begun_ms + BEHIND_MAX_MS:
            raise BadSettings(
                f"the plan was made for {timestamp_text(self.now_ms)}, and it is"
                f" {timestamp_text(begun_ms)}: horizons would pass early",
                where=f"--plan {self.where}",
                remedy="Plan again without --now. If this machine's clock is wrong, set it.",
            )
        for what, then, now, option in (
            ("catalog", self.catalog, catalog, "--catalog"),
            ("publishing", self.publishing, publishing, "--bootstrap-server and --config"),
        ):
            if then != now:
                raise BadSettings(
                    f"the plan was made with {what} {then}, and this run has {now}",
                    where=f"--plan {self.where}",
                    remedy=f"Give the same {option} as `plan` had, or plan again.",
                )


def plan_document(
    document: Mapping[str, Any],
    approval: Mapping[str, Any],
    partitions: Mapping[PartitionKey, Approved],
) -> dict[str, Any]:
    """Return the document of `plan` as a plan file.

    `approval`: the fields of `Approval` that are not in the document or its entries.
    """
    topics = {key.topic: {**one.settings} for key, one in partitions.items()}
    head = {"format": FORMAT, **approval, "settings": topics}
    entries = [_with_facts(entry, partitions) for entry in document["partitions"]]
    whole = {**document, "approval": head, "partitions": entries}
    return {**whole, "approval": {**head, "digest": _digest(whole)}}


def _with_facts(
    entry: Mapping[str, Any], partitions: Mapping[PartitionKey, Approved]
) -> Mapping[str, Any]:
    """The entry, with what its partition was planned from, if it is planned."""
    if (found := partitions.get(_key(entry))) is None:
        return entry
    facts = asdict(found)
    return {**entry, "approved": {name: facts[name] for name in _FACTS}}


def read_plan(place: str) -> Approval:
    """Read a plan file; raises BadSettings if it is none, and UnreadableObject."""
    text = read_document(place, remedy="Name a file that `tierfold plan --out FILE` wrote.")
    where = f"--plan {place}"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadSettings("this is not JSON", where=where, remedy=_AGAIN) from None
    approval = document.get("approval") if isinstance(document, dict) else None
    if not isinstance(approval, dict):
        raise BadSettings("this is not a plan to carry out", where=where, remedy=_AGAIN)
    if approval.get("format") != FORMAT:
        made_by = approval.get("made_by")
        raise BadSettings(
            f"it has the format {approval.get('format')!r}, of tierfold {made_by}, and this"
            f" tierfold reads format {FORMAT}",
            where=where,
            remedy="Plan again with this tierfold.",
        )
    if approval.get("digest") != _digest(document):
        raise BadSettings("it was edited, or is damaged", where=where, remedy=_AGAIN)
    return _parsed(document, approval, place)


def _parsed(document: dict[str, Any], approval: dict[str, Any], place: str) -> Approval:
    """The plan of a file whose digest is right, so its fields have their types."""
    partitions = {
        _key(entry): Approved(
            row=entry["approved"]["row"],
            epoch=entry["epoch"],
            segments=tuple(entry["approved"]["segments"]),
            round=PlannedRound(**_frozen(entry["approved"]["round"])),
            settings=approval["settings"][entry["topic"]],
        )
        for entry in document["partitions"]
        if "approved" in entry
    }
    names = ("tier", "catalog", "now_ms", "given")
    return Approval(
        where=place,
        publishing=document["publishing"],
        partitions=partitions,
        **{name: approval[name] for name in names},
    )


def _digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of the document without its digest, whatever its white space."""
    approval = {name: one for name, one in document["approval"].items() if name != "digest"}
    whole = {**document, "approval": approval}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _key(entry: Mapping[str, Any]) -> PartitionKey:
    return PartitionKey(
        topic=entry["topic"], partition=entry["partition"], topic_id=entry["topic_id"]
    )


def _frozen(round_: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `PlannedRound`, with tuples in place of JSON's lists."""
    groups = tuple(map(tuple, round_["groups"]))
    return {**round_, "groups": groups, "beside": tuple(round_["beside"])}
