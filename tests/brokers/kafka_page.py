"""Pages as somebody follows them: their commands, settings files and outputs, by heading.

    night = Operator(kafka, tmp_path, "orders-7")      # the page's orders
    (command,) = commands_of("A lost catalog")
    ran = night.types(command)     # with this cluster, tier and topic
    assert_shows(outputs_of("4. Look")[0], ran.stdout)
"""

from __future__ import annotations

import re
import shlex
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.brokers.altered_settings import TOOLS
from tests.brokers.cluster import KafkaCluster
from tests.jobs.commands import CLOCK, ROOT, Ran, tierfold

PAGE: Final = ROOT / "docs" / "kafka.md"
PAGES: Final = (PAGE, ROOT / "docs" / "migration.md")
"""Pages whose commands are carried out; no two of their blocks stand below the same heading."""
PROMPT: Final = "$ "
SERVER, TIER, TOPIC = "broker-1:9092", "/mnt/tier", "orders"
SETTINGS, PROPERTIES = "tierfold.toml", "client.properties"
"""What the pages call them."""

_HOUR_MS: Final = 3_600_000
_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_DIFFERS: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    r"|(?<![\w-])[\w-]{22}(?![\w-])"  # An id.
    r"|\d+(?:[ .]\d+)*(?: [kM]?B\b)?"  # A number or a size.
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page: the heading that it stands below, its language, its text."""

    heading: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """All blocks, in the order of their page."""
    for text in (page.read_text(encoding="utf-8") for page in PAGES):
        heading, at = "", 0
        for fence in _FENCE.finditer(text):
            for found in _HEADING.finditer(text, at, fence.start()):
                heading = found[1]
            at = fence.end()
            yield Block(heading=heading, language=fence[2], text=textwrap.dedent(fence[3]))


def commands_of(heading: str) -> list[str]:
    """All commands below a heading, each as one line: of `sh` blocks, and those with a prompt."""
    return [
        line.removeprefix(PROMPT)
        for block in _below(heading)
        for line in block.text.replace("\\\n", "").splitlines()
        if block.language == "sh" or line.startswith(PROMPT)
    ]


def settings_of(heading: str) -> list[str]:
    """The settings files below a heading."""
    return [block.text for block in _below(heading) if block.language == "toml"]


def python_of(heading: str) -> list[str]:
    """The programs below a heading."""
    return [block.text for block in _below(heading) if block.language == "python"]


def outputs_of(heading: str) -> list[str]:
    """What commands print, below a heading: without the commands."""
    texts = [block.text for block in _below(heading) if block.language == "text"]
    return [re.sub(r"^\$ .*\n", "", text, flags=re.MULTILINE) for text in texts]


def rights() -> list[str]:
    """The commands of the table of rights, for TOPIC and User:NAME."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("\n## Rights\n")[2].partition("\n## ")[0]
    (command,) = re.findall(r"`(kafka-acls\.sh [^`]+ …)`", table)
    endings = re.findall(r"`(--operation [^`]+)` \|$", table, re.MULTILINE)
    return [command.replace("…", ending) for ending in endings]


def _below(heading: str) -> list[Block]:
    found = [block for block in blocks() if block.heading == heading]
    assert found, f"no page has a block below {heading}"
    return found


class Operator:
    """Somebody who types what the page says, in front of this cluster, about one topic."""

    def __init__(self, kafka: KafkaCluster, folder: Path, topic: str = TOPIC) -> None:
        self._kafka, self._topic = kafka, topic
        self.settings = folder / SETTINGS
        self.hours = 0.0
        """How long the machine's clock has gone on, beside the time of the test."""

    @property
    def server(self) -> str:
        return self._kafka.servers.partition(",")[0]

    def here(self, text: str) -> str:
        """The page's text with the names of this cluster."""
        text = text.replace(SERVER, self.server).replace(TIER, str(self._kafka.tier))
        for name in (SETTINGS, PROPERTIES):
            path = self.settings.with_name(name)
            text = re.sub(rf"(?<![\w/.]){re.escape(name)}", str(path), text)
        return re.sub(rf"\b{TOPIC}\b", self._topic, text)

    def on_the_page(self, text: str) -> str:
        """What was printed here, with the names of the page."""
        text = text.replace(self.server, SERVER).replace(str(self._kafka.tier), TIER)
        return text.replace(str(self.settings), SETTINGS).replace(self._topic, TOPIC)

    def writes(self, text: str) -> None:
        """Write a settings file of the page."""
        self.settings.write_text(self.here(text), encoding="utf-8")

    def opts_in(self, instead: str = "") -> None:
        """Write the settings file of the first compaction; `instead`: of its tables of topics."""
        (first,), (opted_in,) = (
            settings_of("1. A settings file"),
            settings_of("3. Opt in, and compact"),
        )
        cluster, table, topics = first.replace("[cluster]\n", opted_in).partition("[topics.")
        self.writes(cluster + (instead or table + topics))

    def types(self, command: str, *more: str) -> Ran:
        """Run a command of the page, with more arguments."""
        program, *words = shlex.split(self.here(command))
        if program == "tierfold":
            now_ms = time.time_ns() // 1_000_000 + int(self.hours * _HOUR_MS)
            return tierfold(*words, *more, CLOCK, str(now_ms))
        assert words[:2] == ["--bootstrap-server", self.server]
        printed = self._kafka.run_tool(TOOLS[program], *words[2:], *more)
        return Ran(code=0, stdout=printed, stderr="")


def assert_shows(shown: str, printed: str) -> None:
    """What the page shows of an output is in it, in this order of words; `…` stands for more.

    Numbers, times and ids may differ.
    """
    rows = [_words(" │ ".join(row)) for row in _rows(printed)]
    for row in _rows(shown):
        parts = [_words(part) for part in " │ ".join(row).split("…")]
        assert any(_follow(parts, text) for text in rows), (parts, rows)
    prose = _words(_prose(printed))
    parts = [_words(part) for part in _prose(shown).split("…")]
    assert _follow(parts, prose), (parts, prose)


def _words(text: str) -> str:
    return " ".join(_DIFFERS.sub("#", text).split())


def _follow(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        at = text.find(part.strip(" │"), at)
        if at < 0:
            return False
    return True


def _rows(text: str) -> list[list[str]]:
    """The rows of all tables; one that goes on in the next line is one row."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("│"):
            continue
        cells = [cell.strip() for cell in line[1:].removesuffix("│").split("│")]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=True)]
    return rows


def _prose(text: str) -> str:
    return " ".join(line for line in text.splitlines() if not line.startswith(tuple("│┃┏┡└")))
