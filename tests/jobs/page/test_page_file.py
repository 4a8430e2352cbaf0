"""The page as a file: it loads nothing, escapes all names, and stays small."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from typing import Final

import pytest

from tests.jobs.page.example_pages import HOSTILE, a_page
from tierfold.jobs.page.figures import figures
from tierfold.jobs.page.page_file import html_of, svgs_of
from tierfold.jobs.page.page_model import Page

BYTES_MAX: Final = 1_500_000
SECTIONS: Final = (
    *("problems", "runs-table", "bytes", "savings", "dirty", "owners", "removed", "staying"),
    *("slowest", "requests", "owners-table", "topics-table", "more", "maps"),
)


class Elements(HTMLParser):
    """Every element of a page, and its text outside of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] not in {"script", "style"}:
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(a_page(days=90, owner=HOSTILE))


def test_it_is_one_small_file_that_loads_nothing(html: str) -> None:
    elements = Elements(html)
    assert len(html.encode()) < BYTES_MAX
    assert all("src" not in attributes for attributes in elements.of("script"))
    assert not elements.of("link") + elements.of("img") + elements.of("iframe")
    (policy,) = [one for one in elements.of("meta") if "http-equiv" in one]
    assert (policy["content"] or "").startswith("default-src 'none'; ")


def test_it_has_every_part(html: str) -> None:
    ids = [attributes["id"] for _, attributes in Elements(html).found if "id" in attributes]
    assert [one for one in ids if one in SECTIONS] == [*sorted(SECTIONS, key=ids.index)]
    assert {*SECTIONS} <= {*ids}


def test_each_step_of_a_remedy_has_its_line(html: str) -> None:
    assert "<b>To do:</b> 1. If a broker" in html
    assert "</code>.<br>2. Otherwise" in html


def test_names_are_text_wherever_they_stand(html: str) -> None:
    elements = Elements(html)
    assert len(elements.of("script")) == 3  # The data, Vega, and what draws.
    assert HOSTILE in elements.text
    data = re.search(r'id="specs">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    assert HOSTILE in json.dumps(json.loads(data[1])).replace('\\"', '"')
    assert not set("<>&") & set(data[1])


def test_without_runs_and_problems_it_says_so() -> None:
    empty = Page(
        **{
            **{name: getattr(a_page(), name) for name in Page.__dataclass_fields__},
            **dict.fromkeys(("problems", "last_runs", "days", "topics", "owners"), ()),
            **dict.fromkeys(("staying", "slowest", "skipped", "maps"), ()),
            "problems_left_out": 0,
            "oldest_horizon": None,
            "stored_bytes": None,
        }
    )
    assert figures(empty) == ()
    text = Elements(html_of(empty)).text
    assert "Nothing: no partition failed" in text
    assert "no run is recorded" in text or "the tier is a folder" in text


def test_columns_without_a_value_are_left_out(html: str) -> None:
    page = a_page()
    of_folder = tuple(replace(run, cost_usd=None) for run in page.last_runs)
    fewer = html_of(replace(page, last_runs=of_folder, owners=()))
    (whole, less) = (
        {attributes["data-name"] for attributes in Elements(text).of("td")}
        for text in (html, fewer)
    )
    assert whole - less == {"requests", "storage/month", "saves/month", "topics"}


def test_each_picture_is_a_file_of_its_own() -> None:
    page = a_page(days=3, topics=2)
    found = dict(svgs_of(replace(page, maps=page.maps[:1])))
    assert [*found] == [
        *("bytes.svg", "savings.svg", "owners.svg", "dirty.svg", "removed.svg", "staying.svg"),
        *("slowest.svg", "requests.svg", "map-orders.region-0-17.svg"),
    ]
    texts = {name: "".join(ET.fromstring(text).itertext()) for name, text in found.items()}
    assert "customer.profile.changelog.v2" in texts["dirty.svg"]
    assert "Saved per month" in texts["savings.svg"]
