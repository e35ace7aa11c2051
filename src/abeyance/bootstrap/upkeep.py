"""Work on a store beside serving: migrations, verification, read models. Each opens the store by itself."""

import asyncio
from typing import Any
from uuid import UUID

from abeyance.audit.history import verify_run as verify_history
from abeyance.audit.keys import certified_keys
from abeyance.bootstrap.identity import read_stream
from abeyance.bootstrap.opening import open_journal, open_stores
from abeyance.errors import BadInputError, RunNotFoundError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.settings import Settings
from abeyance.world import SystemWorld


def migrate(settings: Settings) -> list[str]:
    """Bring the store to this release; opening a SQLite store does it, PostgreSQL's scripts are applied
    here."""

    async def work() -> list[str]:
        async with open_stores(settings):
            return []

    if settings.database_url is not None and settings.on_postgres:
        from abeyance.journal.postgres.migrations import migrate as journal
        from abeyance.journal.postgres.migrations import migrate_keys

        applied = [f"journal to version {journal(settings.database_url)}"]
        if settings.keys_file is None:
            applied.append(f"keys to version {migrate_keys(settings.keys_url or settings.database_url)}")
        return applied
    return asyncio.run(work())


def verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    """Verify signature, chain and rules of every event of a run, by the keys that the store's log certifies.

    Needs no key. The verdict is `tampered` if a finding proves it; `unanchored` if all holds but no root
    key was given from elsewhere (`ABEYANCE_ROOT_KEY` or the key folder); else `verified`.
    """
    return asyncio.run(_verify_run(settings, run_id))


async def _verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    try:
        stream = UUID(run_id)
    except ValueError as error:
        raise BadInputError("a run's id is a UUID") from error
    journal = await open_journal(settings, SystemWorld())
    try:
        deployment = await read_stream(journal, DEPLOYMENT_STREAM)
        stored = await journal.read_run(stream)
    finally:
        await journal.close()
    if stored is None:
        raise RunNotFoundError
    keys = certified_keys(deployment, _pinned_root(settings))
    findings = list(keys.findings) + verify_history(
        stored.events, keys.event_keys, codec=EventCodec(keys.origin), control=stored.control
    )
    verdict = "tampered" if findings else "verified" if keys.anchored else "unanchored"
    return {
        "verdict": verdict,
        "run": run_id,
        "events": len(stored.events),
        "log": keys.origin,
        "findings": [
            {"rule": f.rule, "event": f.version, "kind": f.topic, "problem": f.problem} for f in findings
        ],
    }


def _pinned_root(settings: Settings) -> bytes | None:
    from abeyance.crypto.signing import FileSigner

    pem = settings.key("root")
    if pem is None and (settings.data_dir / "keys" / "root.pem").exists():
        pem = (settings.data_dir / "keys" / "root.pem").read_bytes()
    return None if pem is None else FileSigner.from_pem(pem).public_key
