"""The composition root: the only place that knows concrete classes, reads clocks and makes keys.

Nothing is built at import. A process opens its engine in the loop that it serves from, after any fork.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from abeyance.bootstrap.signing_keys import SigningKeys
    from abeyance.errors import AbeyanceError
    from abeyance.settings import Settings
    from abeyance.settings.model import Role

__all__ = [
    "check_projections",
    "examine",
    "examine_without_settings",
    "make_keys",
    "manage_signing_keys",
    "migrate_store",
    "rebuild_projection",
    "run_dev",
    "run_server",
    "run_worker",
    "verify_run",
    "verify_store",
]


def run_dev(
    settings: "Settings", *, reload: bool = True, announce: "Callable[[str, str | None], None]"
) -> None:
    """Serve and execute on this machine until interrupted; `announce(url, token)` says where."""
    from abeyance.bootstrap.serving import serve_dev

    serve_dev(settings, reload=reload, announce=announce)


def run_server(settings: "Settings") -> None:
    """Serve the API, and execute runs unless told not to."""
    from abeyance.bootstrap.serving import serve

    serve(settings)


def run_worker(settings: "Settings") -> None:
    """Execute runs; serve only health and metrics."""
    from abeyance.bootstrap.serving import serve_worker

    serve_worker(settings)


def make_keys(folder: Path) -> dict[str, Any]:
    """Make the three keys of a deployment in `folder`; the public keys and their ids."""
    from abeyance.bootstrap.keys import make_keys as make

    return make(folder)


def manage_signing_keys(settings: "Settings") -> "SigningKeys":
    """The keys that sign events and checkpoints: to be listed, added, replaced and ended."""
    from abeyance.bootstrap.signing_keys import SigningKeys

    return SigningKeys(settings)


def migrate_store(settings: "Settings") -> dict[str, Any]:
    """Bring journal, read models and key store to this release: what was applied, and the versions now."""
    from abeyance.bootstrap.upkeep import migrate

    return migrate(settings)


def examine(settings: "Settings", role: "Role | None" = None) -> list[dict[str, str]]:
    """What `abeyance doctor` finds: `check`, `state` (ok, note, wrong, unseen), `says`, maybe `do`."""
    from abeyance.bootstrap.doctor import examine as look

    return [line.as_dict() for line in look(settings, role)]


def examine_without_settings(error: "AbeyanceError") -> list[dict[str, str]]:
    """The same where the settings are wrong."""
    from abeyance.bootstrap.doctor import examine_without_settings as look

    return [line.as_dict() for line in look(error)]


def verify_run(settings: "Settings", run_id: str) -> dict[str, Any]:
    """Verify every event of a run straight from the store."""
    from abeyance.bootstrap.verification import verify_run as verify

    return verify(settings, run_id)


def verify_store(settings: "Settings") -> dict[str, Any]:
    """Verify every event of the store."""
    from abeyance.bootstrap.verification import verify_store as verify

    return verify(settings)


def rebuild_projection(settings: "Settings", name: str) -> dict[str, Any]:
    """Build a following read model anew and swap it in."""
    from abeyance.bootstrap.upkeep import rebuild

    return rebuild(settings, name)


def check_projections(settings: "Settings") -> dict[str, Any]:
    """Compare every read model with what the journal says."""
    from abeyance.bootstrap.upkeep import check

    return check(settings)
