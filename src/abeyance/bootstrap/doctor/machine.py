"""Versions and settings."""

import os
import platform
import sqlite3
import sys
from collections.abc import Iterator

import abeyance
from abeyance.bootstrap.doctor.report import Line, note, ok, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.errors import ConfigurationError
from abeyance.settings import unknown_variables
from abeyance.settings.model import PREFIX

OLDEST_PYTHON = (3, 11)


def versions() -> Line:
    """What runs here."""
    says = (
        f"abeyance {abeyance.__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    if sys.version_info < OLDEST_PYTHON:
        return wrong("versions", says, "install Python 3.11 or newer")
    return ok("versions", says)


def check_settings(subject: Subject) -> Iterator[Line]:
    """Whether the process has what it needs, and whether a variable is a slip."""
    names = sorted(name for name in os.environ if name.startswith(PREFIX) and os.environ[name])
    try:
        subject.settings.check_for(subject.role)
    except ConfigurationError as error:
        yield wrong("settings", str(error))
    else:
        given = ", ".join(names) or "none"
        yield ok("settings", f"`abeyance {subject.role}` has what it needs; variables that are set: {given}")
    for name, meant in unknown_variables(os.environ).items():
        do = f"is {meant} meant?" if meant else "take it away, or look its name up in the settings reference"
        yield note("settings", f"{name} is no setting and does nothing", do)
