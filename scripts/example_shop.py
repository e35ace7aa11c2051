"""Write ``examples/shop`` as ``abeyance init shop`` does: ``python -m scripts.example_shop``.

``tests/unit/cli/test_init.py`` compares the folder with what this writes.
"""

from pathlib import Path

from abeyance.cli.starting import project_files

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "shop"


def main() -> None:
    """Write the files."""
    for path, text in project_files("shop").items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
