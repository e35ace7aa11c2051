"""Reads a mirror as a stranger would, by c2sp.org/tlog-tiles alone; and file operations that fail."""

import asyncio
import base64
import errno
import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from abeyance.audit import mirror_files
from abeyance.audit.mirror import Mirror
from abeyance.audit.mirror_files import MirrorFiles
from abeyance.audit.notes import NoteKey, open_note
from abeyance.journal.sqlite import open_sqlite, open_sqlite_keys
from tests.support.logs import CODEC, answered_run, open_log
from tests.unit.projections.histories import FixedWorld


def tree_hash(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256().digest()
    middle = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + tree_hash(leaves[:middle]) + tree_hash(leaves[middle:])).digest()


def path_of(number: int, width: int) -> str:
    """A tile's name below its level."""
    digits = f"{number:0{-(-len(str(number)) // 3) * 3}d}"
    groups = [digits[start : start + 3] for start in range(0, len(digits), 3)]
    return "/".join([*("x" + group for group in groups[:-1]), groups[-1]]) + (
        f".p/{width}" if width < 256 else ""
    )


def read_tile(folder: Path, kind: str, number: int, width: int) -> bytes:
    """A tile, or the full one if its part is gone."""
    file = folder / "tile" / kind / path_of(number, width)
    return (file if file.exists() else folder / "tile" / kind / path_of(number, 256)).read_bytes()


def entries_in(bundle: bytes) -> list[bytes]:
    """The entries, each after its length in two bytes."""
    found = []
    while bundle:
        end = 2 + int.from_bytes(bundle[:2])
        found.append(bundle[2:end])
        bundle = bundle[end:]
    return found


def read_mirror(folder: Path, key: NoteKey) -> list[bytes]:
    """The entries under the mirror's checkpoint; every tile, entry and envelope must fit them."""
    file = folder / "checkpoint"
    if not file.exists():
        return []
    origin, size_text, root, *_ = open_note(file.read_text(), key).split("\n")
    size = int(size_text)
    assert origin == key.name
    entries = list[bytes]()
    for number in range(-(-size // 256)):
        width = min(256, size - number * 256)
        entries += entries_in(read_tile(folder, "entries", number, width))[:width]
        lines = (folder / "envelopes" / f"{path_of(number, 256)}.jsonl").read_text().splitlines()
        for place, line in enumerate(lines[:width], number * 256):
            record = json.loads(line)
            assert (place, entries[place]) == (record["i"], base64.b64decode(record["event"]["payload"]))
    hashes = [sha256(b"\x00" + entry).digest() for entry in entries]
    assert size == len(hashes)
    assert root == base64.b64encode(tree_hash(hashes)).decode()
    level = 0
    while hashes:
        for number in range(-(-len(hashes) // 256)):
            expected = b"".join(hashes[number * 256 : (number + 1) * 256])
            width = len(expected) // 32
            assert expected == read_tile(folder, str(level), number, width)[: len(expected)]
        full = len(hashes) // 256
        hashes = [tree_hash(hashes[number * 256 : (number + 1) * 256]) for number in range(full)]
        level += 1
    return entries


def mirror_runs(folder: Path, runs: int) -> None:
    """A mirror of a log of so many runs, in the folder `mirror`."""
    asyncio.run(_mirror_runs(folder, runs))


async def _mirror_runs(folder: Path, runs: int) -> None:
    world = FixedWorld(b"mirror")
    journal = await open_sqlite(folder / "journal", world)
    keys = await open_sqlite_keys(folder / "keys", bytes(32), world)
    (folder / "mirror").mkdir()
    try:
        opened = open_log(journal, keys)
        await opened.open()
        await opened.write(*(answered_run(number) for number in range(1, runs + 1)))
        await Mirror(opened.log, journal, CODEC, MirrorFiles(folder / "mirror")).advance()
    finally:
        await journal.close()
        await keys.close()


class Killed(BaseException):
    """The process is gone."""


class FaultyOs:
    """`os` and `shutil` for the mirror's files. Operation `at` fails; `count` says how many there were.

    A kill is followed by nothing else, and a write that it cuts off is half done.
    """

    def __init__(self, at: int | None = None, *, kill: bool = True) -> None:
        self.at = at
        self.count = 0
        self._kill = kill
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _operate(self) -> None:
        if self._dead:
            raise Killed
        self.count += 1
        if self.count - 1 == self.at:
            self._dead = self._kill
            raise Killed if self._kill else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, *arguments: Any) -> int:
        self._operate()
        return os.open(*arguments)

    def write(self, descriptor: int, data: bytes) -> int:
        try:
            self._operate()
        except BaseException:
            os.write(descriptor, data[: len(data) // 2])
            raise
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._operate()
        os.fsync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        self._operate()
        os.replace(source, target)

    def mkdir(self, folder: Path, mode: int) -> None:
        self._operate()
        os.mkdir(folder, mode)

    def rmtree(self, folder: Path) -> None:
        self._operate()
        shutil.rmtree(folder)

    def __enter__(self) -> "FaultyOs":
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(mirror_files, "os", self)
        self._patch.setattr(mirror_files, "shutil", self)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
