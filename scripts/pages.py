"""Writes the generated pages again: `make pages`. A test fails if one of them is not current.

They are `_PICTURES`, the parts of other pages between `<!-- make pages: NAME -->` and
`<!-- end -->`, and what the commands in their transcripts print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from scripts import (
    architecture,
    document_tables,
    overview,
    python_reference,
    reference_tables,
    transcripts,
)
from scripts.transcripts import ROOT

_PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/architecture.svg": architecture.picture,
    "docs/overview.svg": overview.picture,
}
PAGES: Final = (
    *(
        path.relative_to(ROOT).as_posix()
        for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    ),
    *_PICTURES,
)

_PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "verbs": reference_tables.verbs,
    "columns": reference_tables.columns,
    "options": reference_tables.options,
    "sql_functions": reference_tables.sql_functions,
    "settings": reference_tables.settings,
    "documents": document_tables.documents,
    "runs": document_tables.runs,
    "calls": python_reference.calls,
    "life": architecture.life,
    "keywords": python_reference.keyword_arguments,
    "result": python_reference.result,
}
_PART: Final = re.compile(
    r"(?<=<!-- make pages: )(\w+)( -->\n).*?(?=^<!-- end -->)", re.MULTILINE | re.DOTALL
)


def current(page: str) -> str:
    """Return what a page should hold now; `page` is its path below the repository."""
    if page in _PICTURES:
        return _PICTURES[page]()
    text = (ROOT / page).read_text(encoding="utf-8")
    return transcripts.refreshed(
        _PART.sub(lambda part: part[1] + part[2] + _PARTS[part[1]](), text)
    )


if __name__ == "__main__":
    for name in PAGES:
        (ROOT / name).write_text(current(name), encoding="utf-8")
