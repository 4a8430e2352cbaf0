"""Records the golden files again: `python -m tests.jobs.verbs.record_golden_documents`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.jobs.verbs.test_golden_documents import GOLDEN, WITHOUT_SPARK, second_opinion
from tierfold.jobs.spark.session import tierfold_session


def main() -> None:
    """Replace every golden file, and delete those that no scenario prints."""
    session = tierfold_session()
    texts: dict[str, str] = {}
    for scenario in (*WITHOUT_SPARK, second_opinion):
        with TemporaryDirectory() as folder:
            texts |= scenario(Path(folder))
    session.stop()
    for path in GOLDEN.iterdir():
        path.unlink()
    for name, text in texts.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
