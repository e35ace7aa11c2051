"""A port that somebody else has is said in one sentence, and waited for if a killed server had it."""

import socket
import threading
from collections.abc import Iterator

import pytest

from abeyance.bootstrap import ports
from abeyance.errors import ConfigurationError
from abeyance.settings import Settings


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def settings_for(listening: socket.socket) -> Settings:
    return Settings.load({"ABEYANCE_PORT": str(listening.getsockname()[1])})


class TestWaitForPort:
    def test_a_port_that_stays_taken_is_refused(
        self, taken: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ports, "_PATIENCE_S", 0.0)

        with pytest.raises(ConfigurationError, match=f"port {taken.getsockname()[1]}: name another"):
            ports.wait_for_port(settings_for(taken))

    def test_a_port_that_becomes_free_is_waited_for(self, taken: socket.socket) -> None:
        asked = settings_for(taken)
        threading.Timer(0.05, taken.close).start()

        ports.wait_for_port(asked)

    def test_any_free_port_is_not_looked_for(self) -> None:
        ports.wait_for_port(Settings.load({"ABEYANCE_PORT": "0"}))
