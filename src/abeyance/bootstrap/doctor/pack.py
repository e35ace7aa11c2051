"""The pack: is it found, does it load, what does it define."""

import contextlib
import sys
from collections.abc import Iterator

from abeyance.bootstrap.doctor.report import Line, ok
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.engine.packs import load_pack


def check_pack(subject: Subject) -> Iterator[Line]:
    """Import it as a process would. What its modules print goes to stderr."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = load_pack(subject.settings.pack, subject.settings.pack_dir)
    finally:
        sys.dont_write_bytecode = writes
    defined = found.definitions
    counts = (
        f"{len(defined.tools)} tools, {len(defined.flows)} flows, {len(defined.scripts)} scripts "
        f"from {found.name}"
    )
    yield ok("pack", counts)
