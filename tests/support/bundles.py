"""Bundles for tests: exported from a real journal, and taken apart again to be tampered with."""

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from abeyance.audit.export import Exporter, Filter
from abeyance.audit.notes import Checkpoint, sign_note
from abeyance.crypto.signing import FileSigner, pae, pae_of
from abeyance.journal.sqlite import open_sqlite, open_sqlite_keys
from abeyance.verifier.bundle import dump
from abeyance.verifier.hashing import Tree, hash_leaf
from abeyance.verifier.signatures import BUNDLE_TYPE
from tests.support.logs import CODEC, LOG_SIGNER, answered_run, open_log
from tests.unit.projections.histories import ORIGIN, ROOT, SIGNER, START, FixedWorld

RUNS = 8
"""How many runs the usual bundle has: with the log's own entries 51 records."""

Line = dict[str, Any]
Change = Callable[[list[Line]], Sequence[Line]]


async def _export(folder: Path, wanted: Sequence[Filter], runs: int) -> list[bytes]:
    world = FixedWorld(b"bundles")
    journal = await open_sqlite(folder / "journal", world)
    keys = await open_sqlite_keys(folder / "keys", bytes(32), world)
    try:
        opened = open_log(journal, keys)
        await opened.open()
        await opened.write(*(answered_run(number) for number in range(1, runs + 1)))
        exporter = Exporter(opened.log, journal, CODEC, SIGNER)
        head = await exporter.head()
        return [b"".join([piece async for piece in exporter.export(head, each, START)]) for each in wanted]
    finally:
        await journal.close()
        await keys.close()


def export(folder: Path, *wanted: Filter, runs: int = RUNS) -> list[bytes]:
    """Bundles of one journal with so many runs."""
    return asyncio.run(_export(folder, wanted or (Filter(),), runs))


def lines_of(bundle: bytes) -> list[Line]:
    """The bundle's lines, parsed."""
    return [json.loads(line) for line in bundle.splitlines()]


def bundle_of(lines: Sequence[Line]) -> bytes:
    """The bytes of these lines, written as the exporter writes them."""
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def resealed(lines: Sequence[Line], signer: FileSigner = SIGNER) -> bytes:
    """The bundle with a new end that fits what is before it, as whoever has the key could write it."""
    before = bundle_of([line for line in lines if "end" not in line])
    (said,) = [json.loads(base64.b64decode(line["end"]["payload"])) for line in lines if "end" in line] or [
        {}
    ]
    from hashlib import sha256

    said |= {"lines": before.count(b"\n"), "sha256": sha256(before).hexdigest()}
    body = dump(said)
    end = envelope(BUNDLE_TYPE, body, signer.kid, signer.sign(pae_of(BUNDLE_TYPE, body)))
    return before + bundle_of([{"end": end}])


def envelope(kind: bytes, body: bytes, kid: bytes, signature: bytes) -> Line:
    """A DSSE envelope."""
    return {
        "payload": base64.b64encode(body).decode(),
        "payloadType": kind.decode(),
        "signatures": [{"keyid": kid.hex(), "sig": base64.b64encode(signature).decode()}],
    }


def body_of(line: Line) -> dict[str, Any]:
    """What an event's line says."""
    found: dict[str, Any] = json.loads(base64.b64decode(line["event"]["payload"]))
    return found


def signed(line: Line, body: dict[str, Any], signer: FileSigner = SIGNER) -> Line:
    """The line with another body, signed as whoever has the key could sign it."""
    raw = dump(body)
    return {
        **line,
        "event": envelope(b"application/vnd.abeyance.event.v1+json", raw, signer.kid, signer.sign(pae(raw))),
    }


ROOT_KEY = base64.b64encode(ROOT.public_key).decode()
FIRST_RUN = UUID(int=1)
LOG_KEY = LOG_SIGNER
FOREIGN = FileSigner.from_seed(b"\x09" * 32)
"""A root key that is not the log's."""

_BY_ROOT = ("log-opened", "key-added", "key-retired", "key-revoked")


def forged(lines: Sequence[Line], change: Callable[[int, dict[str, Any]], None] = lambda *_: None) -> bytes:
    """The same history under other keys, `FOREIGN` the root: every signature, hash and proof is right. What
    `change` does to a body, by its index, is signed.
    """
    event_key, log_key = FileSigner.from_seed(b"\x0a" * 32), FileSigner.from_seed(b"\x0b" * 32)
    tree, made, leaves = Tree(), list[Line](), dict[str, str]()
    for line in lines:
        if "event" not in line:
            made.append(line)
            continue
        body = body_of(line)
        change(line["i"], body)
        body["prev"] = leaves.get(body["run"])
        signer = FOREIGN if body["t"] in _BY_ROOT else event_key
        if body["t"] == "log-opened":
            body["data"]["root"] = base64.b64encode(FOREIGN.public_key).decode()
        elif body["t"] == "key-added":
            added = event_key if body["data"]["use"] == "events" else log_key
            body["data"] |= {"key": base64.b64encode(added.public_key).decode(), "kid": added.kid.hex()}
        body["kid"] = signer.kid.hex()
        made.append(signed(line, body, signer))
        leaf = hash_leaf(base64.b64decode(made[-1]["event"]["payload"]))
        leaves[body["run"]] = leaf.hex()
        tree.append(leaf)
    note = sign_note(Checkpoint(ORIGIN, tree.size, tree.root()).text, ORIGIN, log_key)
    return resealed([{"checkpoint": note} if "checkpoint" in line else line for line in made], event_key)
