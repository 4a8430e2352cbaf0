"""Parses what Kafka's `DumpLogSegments` prints; its exit code is always 0."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_ENTRY: Final = re.compile(r"(\w+): (\S+|)(?= |$)")
_HEADINGS: Final = {
    "Mismatches in :": "offset index mismatch",
    "Found timestamp mismatch in :": "timestamp mismatch",
    "Found out of order timestamp in :": "timestamp out of order",
    "The following indexed offsets are not found in :": "offset not found",
    "Non-consecutive offsets in ": "non-consecutive",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of the tool."""

    kind: str
    file: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedSegments:
    """The lines of one run, by what they describe; all values are as printed."""

    batches: tuple[dict[str, str], ...]
    records: tuple[dict[str, str], ...]
    entries: tuple[dict[str, str], ...]
    """The entries of index files, transaction indexes and producer snapshots."""
    gaps: tuple[tuple[int, int], ...]
    """The offsets of neighbouring records with a gap between them, as usual in a compacted log."""
    findings: tuple[Finding, ...]

    def with_failure(self, file: Path, failure: str | None) -> DumpedSegments:
        """Add the tool's exception, if there was one, to the findings."""
        if not failure:
            return self
        found = Finding(kind="exception", file=str(file), detail=failure.splitlines()[0])
        return replace(self, findings=(*self.findings, found))


def parse_dump(out: str, err: str, failure: str = "") -> DumpedSegments:
    """Parse standard output, standard error and, if the tool threw, its stack trace."""
    batches, records, entries = [], [], []
    findings: list[Finding] = []
    file = ""
    for line in out.splitlines():
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
        elif line.startswith("baseOffset: "):
            batches.append(fields := _fields(line))
            if fields.get("isvalid") != "true":
                findings.append(Finding(kind="invalid batch", file=file, detail=line))
        elif line.startswith("| "):
            records.append(_fields(line[2:]))
        elif re.match(r"(offset|timestamp|version|producerId): ", line):
            entries.append(_fields(line))
        elif line.startswith("Found ") and "invalid bytes" in line:
            findings.append(Finding(kind="invalid bytes", file=file, detail=line))
        elif not re.match(r"Log starting offset: \d+$|.* is empty\.$|$", line):
            findings.append(Finding(kind="unknown line", file=file, detail=line))
    gaps, from_errors = _parsed_errors(err)
    findings += from_errors
    parsed = DumpedSegments(
        batches=tuple(batches),
        records=tuple(records),
        entries=tuple(entries),
        gaps=tuple(gaps),
        findings=tuple(findings),
    )
    return parsed.with_failure(Path(file), failure)


def _fields(line: str) -> dict[str, str]:
    return dict(_ENTRY.findall(line))


def _parsed_errors(err: str) -> tuple[list[tuple[int, int]], list[Finding]]:
    """Parse standard error: headings that name a file, with indented lines below them."""
    gaps: list[tuple[int, int]] = []
    findings: list[Finding] = []
    kind, file = "", ""
    for line in err.splitlines():
        heading = next((text for text in _HEADINGS if line.startswith(text)), None)
        if heading is not None:
            kind, file = _HEADINGS[heading], line.removeprefix(heading)
        elif kind == "non-consecutive" and (pair := _gap(line)) is not None:
            # A segment's first record has no predecessor: Kafka prints -1.
            if pair[0] >= 0:
                gaps.append(pair)
            if pair[0] >= pair[1]:
                findings.append(Finding(kind="offsets fall", file=file, detail=line.strip()))
        elif line.startswith(("  ", "Indexed offset: ")):
            findings.append(Finding(kind=kind, file=file, detail=line.strip()))
        else:
            findings.append(Finding(kind="unknown line", file="", detail=line))
    return gaps, findings


def _gap(line: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"  (-?\d+) is followed by (-?\d+)", line)
    return (int(found[1]), int(found[2])) if found else None
