"""Pages of a mapped log that are not loaded are never touched: one that is bad would be fatal."""

from __future__ import annotations

from pathlib import Path
from subprocess import PIPE, run
from sys import executable

import pytest

from tierfold.storage.kafka.compression import Codec

_WITH_FORBIDDEN_GAPS = """
import ctypes
import mmap
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from tests.storage.live_segments import a_tier, data, put_segment
from tests.storage.segments.test_left_out import rewritten, scanned
from tierfold.storage.tiers import file_ranges

PAGE = mmap.PAGESIZE
PROT_NONE = 0
protect = ctypes.CDLL(None).mprotect
load = file_ranges._loaded
forbidden = 0

def loaded(mapped, runs):
    global forbidden
    found = load(mapped, runs)
    ends = [0, *(-(-end // PAGE) * PAGE for _, end in runs)]
    for end, (start, _) in zip(ends, [*runs, (len(mapped), 0)]):
        first_byte = ctypes.c_void_p(mapped.ctypes.data + end)
        if start // PAGE * PAGE > end:
            size_bytes = start // PAGE * PAGE - end
            assert protect(first_byte, ctypes.c_size_t(size_bytes), PROT_NONE) == 0
            forbidden += size_bytes
    return found

file_ranges._loaded = loaded
file_ranges.LOADED_GAP_BYTES = 0
random = Random(1)
drafts = [data(i, (b"k%d" % i, random.randbytes(30_000))) for i in range(60)]
drafts = [replace(draft, codec=int(sys.argv[2])) for draft in drafts]
tier = a_tier(Path(sys.argv[1]))
segment = put_segment(tier, drafts, offsets=(0, 59))
outline = scanned(tier, segment)
if sys.argv[3:]:
    file_ranges._runs = lambda *_: []
receipt, _ = rewritten(tier, segment, [i for i in range(60) if i % 9], outline)
print(receipt.counts.kept, forbidden > 1_000_000)
"""


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD], ids=str)
def test_a_rewrite_touches_only_loaded_pages(codec: Codec, tmp_path: Path) -> None:
    command = [executable, "-c", _WITH_FORBIDDEN_GAPS, str(tmp_path), str(int(codec))]
    assert run(command, stdout=PIPE, text=True, check=True, timeout=60).stdout == "7 True\n"
    # If nothing is loaded, all is forbidden, and the first batch that is read is fatal.
    command[3:4] = [str(tmp_path / "other")]
    assert run([*command, "nothing"], stdout=PIPE, check=False, timeout=60).returncode < 0
