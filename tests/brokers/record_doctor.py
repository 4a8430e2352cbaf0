"""Records again what `doctor` says of a cluster: `python -m tests.brokers.record_doctor`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.brokers.test_doctor import GOLDEN, examined


def main() -> None:
    """Replace the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for sick in examined(Path(folder)):
            for name, text in sick.texts().items():
                (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
