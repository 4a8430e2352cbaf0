"""Each remedy that a message has is carried out by a test, or listed with why none does it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.tidy import source_tree
from tests.tidy.remedies import beginning_of, listed, remedies
from tests.tidy.source_tree import ROOT, source_of

LIST: Final = Path(__file__).with_name("remedies.txt")


def test_each_remedy_is_listed_once_and_no_line_is_left_over() -> None:
    sections = listed(LIST.read_text(encoding="utf-8"))
    found = remedies(source_tree.product())
    lines = {text: beginning_of(text, sections) for text in found}
    missing = [f"{found[text]}: {text}" for text, line in lines.items() if line is None]
    assert missing == [], "carry it out in a test, and name that in remedies.txt"
    assert sections.keys() - set(lines.values()) == set(), "no message says this"


def test_each_section_names_a_file_of_tests_or_says_why_there_is_none() -> None:
    for section in set(listed(LIST.read_text(encoding="utf-8")).values()):
        if not section.startswith("not: "):
            assert "\ndef test_" in (ROOT / section).read_text(encoding="utf-8"), section


MADE_UP: Final = '''
AGAIN: Final = "Run it again."

class Cause(Enum):
    GONE = ("it is gone", "Bring it back, please.")

def moved(where: str) -> str:
    return f"Move it to {where} now."

def refused(what: str, remedy: str = "Look at the log.") -> Error:
    return Error(what, where="x", remedy=remedy)

class Steps:
    def all(self) -> Iterator[str]:
        yield "First stop the others."

    def raised(self, is_last: bool, places: dict[str, str]) -> Error:
        refused("it is lost", "Take a backup instead.")
        end = "And keep them all."
        end += f" {moved('there')}"
        Error("a thing that went wrong", remedy="Leave it out then." if is_last else AGAIN)
        return Error("all of it", where="y", remedy=end + " ".join(self.all()))
'''


def test_the_texts_of_a_remedy_are_found_wherever_they_come_from() -> None:
    assert set(remedies([source_of(MADE_UP)])) == {
        "And keep them all.",
        "Bring it back, please.",
        "First stop the others.",
        "Leave it out then.",
        "Look at the log.",
        "Move it to … now.",
        "Run it again.",
        "Take a backup instead.",
    }


def test_the_longest_beginning_counts() -> None:
    sections = listed("# c\n[a.py]\nRun\n\n[not: why]\nRun it twice\n")
    assert sections == {"Run": "a.py", "Run it twice": "not: why"}
    assert beginning_of("Run it twice.", sections) == "Run it twice"
    assert beginning_of("Run.", sections) == "Run"
    assert beginning_of("Go.", sections) is None
