"""The command line: `abeyance`. What its commands print and how they exit is in `docs/reference/cli.md`."""

from abeyance.cli.entry import main

__all__ = ["main"]
