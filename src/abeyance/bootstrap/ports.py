"""The port that a server is to have: looked at before anything is opened, to refuse it in one sentence."""

import errno
import socket
import time

from abeyance.errors import ConfigurationError
from abeyance.settings import Settings

# A killed server's processes may have it for a moment longer.
_PATIENCE_S = 5.0
_PAUSE_S = 0.1


def wait_for_port(settings: Settings) -> None:
    """Return once nobody listens there. Raises `ConfigurationError` if somebody does for five seconds."""
    end = time.monotonic() + _PATIENCE_S
    while settings.port and _is_taken(settings.host, settings.port):
        if time.monotonic() >= end:
            raise ConfigurationError(
                f"ABEYANCE_PORT: another program listens on port {settings.port}: "
                "name another one, or 0 for any that is free"
            )
        time.sleep(_PAUSE_S)


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:  # what else is wrong with the address the server says
        return error.errno == errno.EADDRINUSE
    return False
