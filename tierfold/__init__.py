"""tierfold compacts Kafka topics in their remote tier, outside the brokers.

    jobs         runs: Spark, the verbs, settings, the command line
    storage      reads and writes: Kafka's bytes, tiers, the catalog
    compaction   decides: pure functions on frozen values
    conf         defaults as data

The four are links to the folders of that name at the top of the repository. Imports go inward:
jobs → storage → compaction.

The names in `__all__` are the Python API; docs/python.md describes it. They load lazily: a worker
that imports `tierfold.storage` imports neither Spark nor the API.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tierfold.storage.kernel_cache import ensure_kernel_cache

if TYPE_CHECKING:
    from tierfold.compaction.model.errors import (
        BadSettings,
        CorruptLog,
        TierfoldError,
        UnreadableObject,
    )
    from tierfold.jobs.api.beginning import init
    from tierfold.jobs.api.changing import compact, forget, restore, vacuum
    from tierfold.jobs.api.failures import PartitionFailed, RunFenced
    from tierfold.jobs.api.frames import read, register
    from tierfold.jobs.api.reading import doctor, explain, history, plan, runs, status
    from tierfold.jobs.api.rebuilding import rebuild
    from tierfold.jobs.api.reporting import report
    from tierfold.jobs.api.segment import read_segment
    from tierfold.jobs.api.topic_settings import config
    from tierfold.jobs.api.uploading import local_retention, upload
    from tierfold.jobs.api.verifying import verify
    from tierfold.jobs.context.byte_progress import Progress

__all__ = [
    "BadSettings",
    "CorruptLog",
    "PartitionFailed",
    "Progress",
    "RunFenced",
    "TierfoldError",
    "UnreadableObject",
    "compact",
    "config",
    "doctor",
    "explain",
    "forget",
    "history",
    "init",
    "local_retention",
    "plan",
    "read",
    "read_segment",
    "rebuild",
    "register",
    "report",
    "restore",
    "runs",
    "status",
    "upload",
    "vacuum",
    "verify",
]

_MODULES = {
    "tierfold.compaction.model.errors": "BadSettings CorruptLog TierfoldError UnreadableObject",
    "tierfold.jobs.api.beginning": "init",
    "tierfold.jobs.api.changing": "compact forget restore vacuum",
    "tierfold.jobs.api.failures": "PartitionFailed RunFenced",
    "tierfold.jobs.api.rebuilding": "rebuild",
    "tierfold.jobs.api.frames": "read register",
    "tierfold.jobs.api.reading": "doctor explain history plan runs status",
    "tierfold.jobs.api.reporting": "report",
    "tierfold.jobs.api.segment": "read_segment",
    "tierfold.jobs.api.topic_settings": "config",
    "tierfold.jobs.api.uploading": "local_retention upload",
    "tierfold.jobs.api.verifying": "verify",
    "tierfold.jobs.context.byte_progress": "Progress",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

# Before the import of any module that imports numba.
ensure_kernel_cache()


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name == "__version__":
        return import_module("tierfold.jobs.context.versions").tierfold_version()
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
