"""The beginning of a script that runs as on a worker with the packages of the archive alone."""

from __future__ import annotations

from typing import Final

ARCHIVE_ALONE: Final = """
import json, sys
from importlib.metadata import packages_distributions

class OnlyTheArchive:
    owners = packages_distributions()
    has = {*json.loads(sys.argv[1]), "tierfold", "pyspark", "py4j"}

    def find_spec(self, name, path=None, target=None):
        owners = self.owners.get(name.partition(".")[0], ())
        if owners and not self.has.intersection(owners):
            raise ModuleNotFoundError(f"no module named {name}", name=name)

sys.meta_path.insert(0, OnlyTheArchive())
"""
"""Blocks every other package; the first argument is `cluster_archive.OTHERS` as JSON."""
