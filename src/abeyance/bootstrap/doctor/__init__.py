"""`abeyance doctor`: whether a process of this deployment would start and work, and what to do if not.

It only reads: it makes no file, no table and no key, takes no lock, and works beside a running server. What
it can't look at it says so.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from abeyance.bootstrap.doctor import access, disk, journal, keys, machine, pack
from abeyance.bootstrap.doctor.report import Line, unseen, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.errors import AbeyanceError

if TYPE_CHECKING:
    from abeyance.settings import Settings
    from abeyance.settings.model import Role

Check = Callable[[Subject], Iterable[Line]]

CHECKS: dict[str, Check] = {
    "settings": machine.check_settings,
    "store": journal.check_store,
    "keys": keys.check_keys,
    "key store": keys.check_key_store,
    "clock": journal.check_clock,
    "public address": access.check_public_address,
    "authentication": access.check_authentication,
    "pack": pack.check_pack,
    "disk": disk.check_disk,
}
_ASK_THE_STORE = frozenset(("keys", "key store", "clock"))


def examine(settings: "Settings", role: "Role | None" = None) -> list[Line]:
    """Every line. `role`: the process that shall start; unset, what the settings suggest."""
    subject = Subject.of(settings, role)
    lines = [machine.versions()]
    away = False
    for name, check in CHECKS.items():
        if away and name in _ASK_THE_STORE:
            lines.append(unseen(name, "the store can't be read"))
            continue
        found = list(_carried_out(name, check, subject))
        away = away or (name == "store" and any(line.state == "wrong" for line in found))
        lines += found
    return lines


def examine_without_settings(error: AbeyanceError) -> list[Line]:
    """What can be said while a setting is wrong."""
    return [
        machine.versions(),
        wrong("settings", str(error), "mend the variable; the settings reference has its rule"),
        *(unseen(name, "the settings can't be read") for name in CHECKS if name != "settings"),
    ]


def _carried_out(name: str, check: Check, subject: Subject) -> Iterator[Line]:
    """The lines of one check. What goes wrong in it keeps no other from being carried out."""
    try:
        yield from check(subject)
    except AbeyanceError as error:
        yield wrong(name, str(error))
    except Exception as error:
        yield unseen(name, f"looking at it failed: {type(error).__name__}")
