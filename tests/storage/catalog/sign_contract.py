"""The contract of the folder of signs: each store's test class inherits it and sets `signs`."""

from __future__ import annotations

import json

import pytest

from tierfold.compaction.commits.holders import Sign
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog.sign_folder import (
    PROCESS_END,
    SIGN_BYTES_MAX,
    SignFolder,
    newest,
)

RUN = "20261121T153046-hVb2-_0A"
SAID: dict[str, object] = {"run": RUN, "verb": "compact", "host": "node-7", "process": 31}

FAR_FUTURE_MS = 2**53


class SignContract:
    @pytest.fixture
    def signs(self) -> SignFolder:
        raise NotImplementedError

    def put(self, signs: SignFolder, data: bytes, name: str = f"{RUN}.1") -> Sign:
        """Somebody's object among the signs, as this run reads it."""
        signs.store.create(f"signs/{name}", data)
        (listed,) = signs.listed()
        return signs.read(listed)

    def test_there_is_none_at_first(self, signs: SignFolder) -> None:
        assert signs.listed() == []

    def test_a_sign_says_who_and_the_store_says_when(self, signs: SignFolder) -> None:
        signs.write(RUN, 1, SAID)
        (listed,) = signs.listed()
        assert (listed.run, listed.number) == (RUN, 1)
        assert listed.modified_ms > 1_600_000_000_000
        assert signs.read(listed) == Sign(
            run=RUN, modified_ms=listed.modified_ms, host="node-7", process=31, verb="compact"
        )

    def test_a_sign_is_never_overwritten(self, signs: SignFolder) -> None:
        signs.write(RUN, 1, SAID)
        with pytest.raises(UnreadableObject, match="taken"):
            signs.write(RUN, 1, {})
        (listed,) = signs.listed()
        assert signs.read(listed).host == "node-7"

    def test_the_newest_sign_of_each_run_counts(self, signs: SignFolder) -> None:
        for run, number in (("a", 9), ("a.b", 1), ("a", 10)):
            signs.write(run, number, SAID)
        assert [(one.run, one.number) for one in signs.listed()] == [
            ("a", 9),
            ("a", 10),
            ("a.b", 1),
        ]
        assert newest(signs.listed())["a"].number == 10
        signs.remove("a", 9)
        signs.remove("a", 9)
        assert [one.run for one in signs.listed()] == ["a", "a.b"]

    def test_old_ones_are_deleted(self, signs: SignFolder) -> None:
        signs.write(RUN, 1, SAID)
        (listed,) = signs.listed()
        signs.clean_up(listed.modified_ms)
        assert signs.listed() == [listed]
        signs.clean_up(FAR_FUTURE_MS)
        assert signs.listed() == []

    def test_what_no_run_wrote_is_no_sign_and_stays(self, signs: SignFolder) -> None:
        signs.store.create("signs/README", b"mine")
        assert signs.listed() == []
        signs.clean_up(FAR_FUTURE_MS)
        assert signs.store.exists("signs/README")

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\xff\xfe\0",
            b"{",
            b"[]",
            b"17",
            b"[" * 2000,
            b'{"host": 7, "process": true, "verb": ["x"]}',
            json.dumps({"host": "h", "more": "x" * SIGN_BYTES_MAX}).encode(),
        ],
        ids=range(8),
    )
    def test_a_sign_that_says_nothing_valid_still_counts(
        self, signs: SignFolder, data: bytes
    ) -> None:
        found = self.put(signs, data)
        assert (found.run, found.host, found.process, found.verb) == (RUN, "", None, "")

    def test_what_it_says_is_bounded_and_printable(self, signs: SignFolder) -> None:
        said = {"host": "\x1b[2J" + "x" * 1000, "process": 31, "verb": "\u202e\ud800"}
        found = self.put(signs, json.dumps(said).encode())
        assert found.host.startswith("\\x1b[2Jxx")
        assert len(found.host) < 300
        assert found.verb == "\\u202e\\ud800"

    @pytest.mark.parametrize("process", [-1, PROCESS_END, 10**4000])
    def test_an_impossible_process_number_is_not_printed(
        self, signs: SignFolder, process: int
    ) -> None:
        highest = SAID | {"process": PROCESS_END - 1}
        assert self.put(signs, json.dumps(SAID | {"process": process}).encode()).process is None
        signs.remove(RUN, 1)
        assert self.put(signs, json.dumps(highest).encode()).process == PROCESS_END - 1

    def test_one_that_is_gone_says_nothing(self, signs: SignFolder) -> None:
        signs.write(RUN, 1, SAID)
        (listed,) = signs.listed()
        signs.remove(RUN, 1)
        assert signs.read(listed).host == ""
