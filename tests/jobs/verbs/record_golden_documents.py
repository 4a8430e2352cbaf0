"""Records the verbs' documents again: `python -m tests.jobs.verbs.record_golden_documents`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.jobs.verbs.test_golden_documents import GOLDEN, documents_of
from tierfold.jobs.spark.session import tierfold_session


def main() -> None:
    """Replaces every golden file; what is not told any more goes."""
    session = tierfold_session()
    with TemporaryDirectory() as folder:
        documents = documents_of(Path(folder))
    session.stop()
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for name, text in documents.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
