"""What the database's errors mean: who may try again, and when nothing is known.

The classes are those of the PostgreSQL manual, appendix A. An error that came from a connection that is
lost says nothing about the statement: it may have been committed (`ConnectionLostError`).
"""

import psycopg

from abeyance.errors import (
    AbeyanceError,
    ConfigurationError,
    PerhapsStoredError,
    SigningKeyRetiredError,
    StoreUnavailableError,
)

_UNAVAILABLE_CLASSES = {
    "08",  # connection
    "25",  # read-only: a standby, or a primary that was told so
    "28",  # refused: a password that was just rotated
    "40",  # serialization failure, deadlock
    "53",  # disk full, out of memory, too many connections
    "54",  # a limit of the server
    "55",  # lock not available
    "57",  # cancelled by a time limit, shut down, starting up
    "58",  # input or output failed
}
_SIGNING_KEY_ENDED = "AB001"  # raised by `signing_keys_check`
_NOT_MIGRATED = {"42P01", "42883", "42704", "3F000", "42703"}


class ConnectionLostError(PerhapsStoredError):
    """The connection broke while a statement was under way: nobody knows whether it was committed."""


class OtherReleaseError(StoreUnavailableError, ConfigurationError):
    """The tables aren't this release's: not migrated yet, or by now a newer one's.

    To whoever starts it is a wrong configuration. In a process that a newer release has migrated away from
    it means that nothing was taken, and that the same request works at a newer process.
    """


def translate(error: psycopg.Error, *, lost: bool) -> AbeyanceError | None:
    """The error that callers see, `None` if this isn't the database's state but a bug."""
    state = error.diag.sqlstate or error.sqlstate
    if lost:
        return ConnectionLostError("the connection to the database was lost")
    if state == _SIGNING_KEY_ENDED:
        return SigningKeyRetiredError()
    if state in _NOT_MIGRATED:
        return OtherReleaseError(
            "the database has not this release's tables: run `abeyance db migrate`, or stop this process if "
            "a newer release has done so"
        )
    if state is None or state[:2] in _UNAVAILABLE_CLASSES:
        return StoreUnavailableError(f"the database can't be used right now ({state or 'no connection'})")
    return None
