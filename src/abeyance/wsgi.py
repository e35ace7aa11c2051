"""The server's application for a process manager of one's own: `gunicorn -k asgi 'abeyance.wsgi:build()'`.

It is an ASGI application with a life span: the engine is opened when it starts and drained when it stops.
`abeyance serve` does the same with the server's options set as docs/adr/0005 says.
"""

from abeyance.bootstrap.logs import configure_logging
from abeyance.bootstrap.serving import Process
from abeyance.settings import Settings


def build() -> Process:
    """The application, from the process's `ABEYANCE_…` variables. Raises `ConfigurationError`."""
    settings = Settings.load()
    settings.check_for("serve")
    configure_logging(settings.log_level, secrets=(settings.api_key,))
    return Process(settings, "serve")
