"""The page in a browser: it draws everything, says nothing on the console, and fits a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.page import chromium
from tests.jobs.page.example_pages import HOSTILE, a_page
from tierfold.jobs.page.figures import figures
from tierfold.jobs.page.page_file import html_of

SHOWN: Final = (
    "5 things",
    "orders-17, orders-18, payments.eu-3",
    "tierfold compact TIER --holes-are-holes",
    "customer.profile.changelog.v2",
    "past max.compaction.lag.ms",
    "tombstones expired",
    "12.8 min",
    "2026-11-28",
)
_MEASURE: Final = """<script>
addEventListener("load", () => setInterval(() => {
  document.body.dataset.widest = document.documentElement.scrollWidth;
  document.body.dataset.ground = getComputedStyle(document.body).backgroundColor;
}, 500));
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    # Vega has the text of an end tag, too.
    text, _, end = html_of(a_page(owner=HOSTILE)).rpartition("</body>")
    path.write_text(f"{text}{_MEASURE}</body>{end}", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("width", "scheme", "ground"),
    [(1280, 1, "rgb(245, 246, 248)"), (390, 0, "rgb(17, 21, 27)")],
    ids=["light", "dark phone"],
)
def test_it_draws_everything(
    page: Path, tmp_path: Path, width: int, scheme: int, ground: str
) -> None:
    html, console = chromium.opened(
        page,
        tmp_path,
        f"--window-size={width},2000",
        f"--blink-settings=preferredColorScheme={scheme}",
    )
    assert console == []
    drawn = re.search(r'<body [^>]*data-drawn="(\d+)"', html)
    assert drawn is not None
    assert int(drawn[1]) == len(figures(a_page())) == html.count('<svg xmlns="')
    assert [text for text in SHOWN if text not in html] == []
    assert "<title>tierfold: s3://kafka-tier/production</title>" in html
    assert f'data-widest="{width}"' in html
    assert f'data-ground="{ground}"' in html
