"""Local paths and file URIs are accepted; anything else is refused with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfold.compaction.model.errors import BadSettings
from tierfold.storage.tiers.local_paths import local_path


def test_a_path_and_a_file_uri_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, path in (
        ("/a b:c@d/e?f#g", "/a b:c@d/e?f#g"),
        ("here", f"{tmp_path}/here"),
        ("./a:b", f"{tmp_path}/a:b"),
        ("file:///a%20b", "/a b"),
        ("file:/a%3Fb%23c", "/a?b#c"),
        ("FILE://LocalHost/a", "/a"),
    ):
        assert local_path(text, of="catalog") == Path(path)
        # A run passes on what it resolved; resolving that again changes nothing.
        assert local_path(path, of="catalog") == Path(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "catalog: the path is empty: ''"),
        (" \t\n", "the path is empty: ' "),
        ("s3a://bucket/x", "the catalog's scheme s3a:// is not supported. Name a folder."),
        ("GS://bucket", "gs:// is not supported"),
        (" s3://bucket", "s3:// is not supported"),
        ("memory:", "memory: is not supported"),
        ("http:", "http: is not supported"),
        ("a:b", "Write a relative path with a colon as ./a:b."),
        ("s3://[bucket", "s3:// is not supported"),
        ("file://[host/x", "this is no valid URI"),
        ("file://host/x", "absolute path on this machine. Write file:///path/to/catalog."),
        ("file:x", "absolute path on this machine"),
        ("file:", "absolute path on this machine"),
        ("file:///x?a=b", "file:///x: a file URI has no query and no fragment"),
        ("file:/x#a", "file:/x: a file URI has no query and no fragment"),
        ("file:///x%00", "a path cannot hold a zero byte"),
    ],
)
def test_other_texts_are_refused_with_a_remedy(text: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        local_path(text, of="catalog")
    assert message in str(caught.value)
