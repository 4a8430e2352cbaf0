"""Generates docs/overview.svg: brokers, tier, tierfold, catalog and readers.

The bytes before and after are those of a real run on the bundled sample.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Final

from scripts.transcripts import NOW_MS, ROOT, ran
from tierfold.compaction.model.wording import counted, spaced

_COMPACT: Final = ("--set", "cleanup.policy=compact", "--engine", "local", "--json")

_PICTURE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 290" font-family="sans-serif">
<!-- `make pages` generates this picture; do not edit it. -->
<title>tierfold reads segments, writes a smaller one beside them, and commits</title>
<style>
  text {{ font-size: 13px; text-anchor: middle; fill: #222; }}
  .name {{ font-weight: bold; }}
  .small {{ font-size: 11.5px; fill: #444; }}
  .box {{ stroke: #888; rx: 6px; }}
  .arrow {{ stroke: #555; stroke-width: 1.5; marker-end: url(#tip); }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>
<rect width="840" height="290" fill="#fff"/>

<rect class="box" x="15" y="40" width="150" height="80" fill="#e6edf7"/>
<text class="name" x="90" y="72">brokers</text>
<text class="small" x="90" y="96">cleanup.policy=delete</text>

<rect class="box" x="245" y="15" width="330" height="125" fill="#f5f5f5"/>
<text class="name" x="410" y="36">bucket or folder: the remote tier</text>
<rect x="262" y="50" width="62" height="30" fill="#b5c4db" stroke="#777"/>
<rect x="328" y="50" width="62" height="30" fill="#b5c4db" stroke="#777"/>
<rect x="394" y="50" width="62" height="30" fill="#b5c4db" stroke="#777"/>
<rect x="512" y="50" width="7" height="30" fill="#f0a020" stroke="#777"/>
<text class="small" x="359" y="98">before: {segments_in}</text>
<text class="small" x="359" y="114">{bytes_in}</text>
<text class="small" x="515" y="98">after: {segments_out}</text>
<text class="small" x="515" y="114">{bytes_out}</text>

<rect class="box" x="675" y="40" width="150" height="80" fill="#e6edf7"/>
<text class="name" x="750" y="72">readers</text>
<text class="small" x="750" y="96">Spark, Python</text>

<rect class="box" x="300" y="205" width="220" height="70" fill="#fdf0d5"/>
<text class="name" x="410" y="234">tierfold</text>
<text class="small" x="410" y="256">keeps the latest record of each key</text>

<rect class="box" x="675" y="205" width="150" height="70" fill="#e7f4e4"/>
<text class="name" x="750" y="234">catalog</text>
<text class="small" x="750" y="256">which segments are live</text>

<path class="arrow" d="M165 80H241"/><text class="small" x="203" y="72">upload</text>
<path class="arrow" d="M359 140V201"/><text class="small" x="336" y="176">read</text>
<path class="arrow" d="M480 205V144"/><text class="small" x="504" y="176">write</text>
<path class="arrow" d="M520 240H671"/><text class="small" x="596" y="232">one fenced commit</text>
<path class="arrow" d="M750 205V124"/><text class="small" x="792" y="168">which ones</text>
<path class="arrow" d="M575 80H671"/><text class="small" x="623" y="72">records</text>
</svg>
"""


def picture() -> str:
    """Return the picture as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "sample", Path(folder) / "tier")
        arguments = ["compact", "tier", *_COMPACT, "--now", str(NOW_MS)]
        (entry,) = json.loads(ran(arguments, Path(folder)))["partitions"]
    return _PICTURE.format(
        segments_in=counted(entry["segments_in"], "segment"),
        segments_out=counted(entry["segments_out"], "segment"),
        bytes_in=f"{spaced(entry['bytes_in'])} bytes",
        bytes_out=f"{spaced(entry['bytes_out'])} bytes",
    )
