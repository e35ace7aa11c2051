"""A key that another process holds."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abeyance.crypto.programs import ProgramSigner
from abeyance.crypto.signing import FileSigner
from abeyance.errors import ConfigurationError, StoreUnavailableError

PROGRAM = Path(__file__).parents[2] / "support" / "signing_program.py"
SEED = b"\x07" * 32
Start = Callable[..., ProgramSigner]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the program; each is ended after the test."""
    started: list[ProgramSigner] = []

    def one(*misbehaviour: str, timeout_s: float = 10.0) -> ProgramSigner:
        command = [sys.executable, str(PROGRAM), SEED.hex(), *misbehaviour]
        started.append(ProgramSigner(command, timeout_s=timeout_s))
        return started[-1]

    yield one
    for signer in started:
        signer.close()


class TestProgramSigner:
    @pytest.mark.parametrize("size", [0, 1, 3_500, 200_000])
    def test_it_signs_as_the_key_in_a_file_does(self, start: Start, size: int) -> None:
        """Same key, same id, same bytes: whoever verifies can't tell."""
        program, file = start(), FileSigner.from_seed(SEED)
        message = bytes(size)

        assert (file.kid, file.public_key) == (program.kid, program.public_key)
        assert [file.sign(message)] * 2 == [program.sign(message), program.sign(message)]

    @pytest.mark.parametrize("misbehaviour", ["wrong", "dies", "short", "slow"])
    def test_a_signature_that_isnt_one_is_never_handed_on(self, start: Start, misbehaviour: str) -> None:
        """Nothing is stored then; nor is a late answer taken for the next message's."""
        signer = start(misbehaviour, timeout_s=0.2 if misbehaviour == "slow" else 10.0)

        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="signing program"):
                signer.sign(b"message")

    def test_a_program_that_says_no_key_stops_the_start(self, start: Start) -> None:
        with pytest.raises(ConfigurationError, match="public key"):
            start("mute")

    def test_a_program_that_isnt_there_stops_the_start(self) -> None:
        with pytest.raises(ConfigurationError, match="started"):
            ProgramSigner(["/no/such/program"])
