"""Verification straight from a store: one moment of it is read, no key is needed, nothing is written.

It works beside a running server, on a copy of a store, and on a store whose keys are elsewhere.
"""

import asyncio
from typing import Any
from uuid import UUID

from abeyance.audit.findings import Finding
from abeyance.audit.history import verify_run as verify_history
from abeyance.audit.journal import verify_store as verify_all
from abeyance.audit.keys import certified_keys
from abeyance.audit.positions import find_places
from abeyance.bootstrap.keys import ROOT_PUBLIC
from abeyance.bootstrap.progress import shown_count
from abeyance.bootstrap.stores import open_moment
from abeyance.crypto.signing import read_public_pem
from abeyance.errors import BadInputError, RunNotFoundError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import EventRow, JournalSnapshot
from abeyance.settings import Settings

_PAGE = 500


def verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    """Verify signature, chain and rules of every event of a run, by the keys that the store's log certifies.

    The verdict is `tampered` if a finding proves it; `unanchored` if all holds but no root key was given from
    elsewhere (`ABEYANCE_ROOT_KEY` or the key folder); else `verified`.
    """
    return asyncio.run(_verify_run(settings, run_id))


def verify_store(settings: Settings) -> dict[str, Any]:
    """Verify every event of every stream, and the sealed index."""
    return asyncio.run(_verify_store(settings))


async def _verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    try:
        stream = UUID(run_id)
    except ValueError as error:
        raise BadInputError("a run's id is a UUID") from error
    async with open_moment(settings) as moment:
        keys = certified_keys(await _all_events(moment, DEPLOYMENT_STREAM), _pinned_root(settings))
        rows, controls = await _all_events(moment, stream), await moment.controls([stream])
        places = await find_places(moment, keys)
        indexes = await moment.sealed_indexes(stream, [row.version for row in rows])
    if not rows:
        raise RunNotFoundError
    control = controls[0] if controls else None
    findings = [
        *keys.findings,
        *verify_history(rows, keys.event_keys, codec=EventCodec(keys.origin), control=control),
        *places.check(rows, indexes),
    ]
    return {
        "verdict": "tampered" if findings else "verified" if keys.anchored else "unanchored",
        "run": run_id,
        "events": len(rows),
        "log": keys.origin,
        "findings": [_shown(finding) for finding in findings],
    }


async def _verify_store(settings: Settings) -> dict[str, Any]:
    async with open_moment(settings) as moment:
        with shown_count("verifying events") as progress:
            report = await verify_all(moment, root_public_key=_pinned_root(settings), progress=progress)
    return {
        "verdict": report.verdict,
        "streams": report.streams,
        "events": report.events,
        "sealed": report.sealed,
        "signed": report.signed,
        "log": report.origin,
        "findings": [{"stream": str(each.stream), **_shown(each)} for each in report.findings],
    }


def _shown(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "event": finding.version,
        "kind": finding.topic,
        "problem": finding.problem,
    }


async def _all_events(moment: JournalSnapshot, stream: UUID) -> list[EventRow]:
    rows: list[EventRow] = []
    while page := await moment.events(stream, after=rows[-1].version if rows else 0, limit=_PAGE):
        rows += page
    return rows


def _pinned_root(settings: Settings) -> bytes | None:
    """The root's public key: from its own file or variable, or from `root.pub` beside the other keys."""
    if settings.signing_program("root") is None:
        pem = settings.key("root")
        if pem is not None:
            return read_public_pem(pem)
    folder = settings.key_dir or settings.data_dir / "keys"
    files = [file for file in (folder / "root.pem", folder / ROOT_PUBLIC) if file.exists()]
    return read_public_pem(files[0].read_bytes()) if files else None
