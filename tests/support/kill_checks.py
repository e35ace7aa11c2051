"""What must be true of a deployment after its server was killed again and again."""

import asyncio

from abeyance.bootstrap.stores import Stores, open_stores
from abeyance.crypto.sealing import RunKey
from abeyance.engine.packs import load_pack
from abeyance.journal import canonical
from abeyance.journal.events import content_ref
from abeyance.journal.store import StoredRun
from tests.support.killing import ROOT, Outside, Victim
from tests.support.standing import assert_all_stand


def assert_nothing_lost(victim: Victim) -> int:
    """Nothing that was acknowledged is lost, and every run stands; how many runs there are."""
    assert [] == victim.problems
    return asyncio.run(_check(victim))


async def _check(victim: Victim) -> int:
    outside = Outside.read(victim.outside)
    pack = load_pack("tests.support.kill_pack", ROOT)
    before = victim.outside.read_bytes()
    async with open_stores(victim.settings) as stores:
        desk = stores.desk
        found = await assert_all_stand(
            stores.journal, stores.keys, desk, pack.definitions, stores.identity.public_keys, outside.ran
        )
        assert set() == victim.started - set(found)
        assert ["completed"] == sorted({stored.control.status for stored in found.values()})
        for run, value in victim.answered.items():
            stored = next(stored for run_id, stored in found.items() if str(run_id) == run)
            assert canonical.encode(value) in await _output_of(stores, stored)
    assert before == victim.outside.read_bytes()
    return len(found)


async def _output_of(stores: Stores, stored: StoredRun) -> bytes:
    control = stored.control
    ref = content_ref(stores.desk.codec.open(stored.events[-1]).event)
    assert ref is not None
    key = RunKey(control.key_id, (await stores.keys.get([control.key_id]))[control.key_id])
    blob = stored.contents[control.version]
    opened = stores.desk.vault.open(blob, ref, key, run_id=control.run_id, version=control.version)
    return opened.canonical
