"""Build a read model anew while the system runs.

A new generation is built beside the live one, in short transactions, until it is as far as the live one; then
it takes its place in one transaction. Readers see the old one until then and the new one after it, never an
empty one. Two rebuilds at once are harmless: the newer one drops the older, which then stops.
"""

from collections.abc import Callable
from dataclasses import dataclass

from abeyance.errors import ConflictError
from abeyance.journal.store import JournalStore
from abeyance.projections.read_models import Place, ReadModel, ReadModelStore

BATCH = 1_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A read model after it was rebuilt: `position` sealed events were applied."""

    model: str
    generation: int
    position: int


def _silent(done: int, total: int) -> None:
    pass


async def rebuild(
    model: ReadModel,
    journal: JournalStore,
    store: ReadModelStore,
    *,
    batch: int = BATCH,
    progress: Progress = _silent,
) -> Rebuilt:
    """Build `model` anew and swap it in. `progress` is told the events applied and their number so far.

    Raises `ConflictError` if a newer rebuild overtook this one, `UnknownEventError` at an event of a newer
    release; then the live generation stays.
    """
    place = await store.begin(model.name)
    while not await store.swap(model.name, place.generation):
        size = max(await journal.seal(batch), place.position)
        # At least once, with nothing to apply: whoever was overtaken finds out here.
        place = await _apply(model, journal, place, min(place.position + batch, size))
        while place.position < size:
            place = await _apply(model, journal, place, min(place.position + batch, size))
            progress(place.position, size)
    await store.clear(model.name, place.generation)
    return Rebuilt(model=model.name, generation=place.generation, position=place.position)


async def _apply(model: ReadModel, journal: JournalStore, place: Place, upto: int) -> Place:
    events = await journal.read_sealed(place.position, upto - place.position)
    if not await model.apply(place, upto, events):
        raise ConflictError(f"a newer rebuild of {model.name} has begun; it takes this one's place")
    return place._replace(position=upto)
