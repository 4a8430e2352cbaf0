"""Emulators start although other processes of the test run start servers meanwhile."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.storage import emulators
from tests.storage.emulators import PORTS, moto


def test_an_emulator_listens_where_the_kernel_sends_no_other_process() -> None:
    port = urlsplit(moto()).port
    assert port in PORTS
    if sys.platform == "linux":
        first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        assert not set(range(first, last + 1)) & set(PORTS)


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = emulators.free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        monkeypatch.setattr(emulators, "PORTS", range(first, first + 2))
        assert {emulators.free_port() for _ in range(4)} == {first + 1}
