"""Completion in a real shell, by the script that the command prints."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import Project, project

pytestmark = pytest.mark.slow


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Project]:
    """Somebody with a home of their own."""
    home = tmp_path / "home"
    with project(home, {"HOME": str(home)}) as made:
        yield made


def completed(user: Project, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    typed = " ".join(f"'{word}'" for word in ("abeyance", *words))
    script = (
        f'eval "$(abeyance --show-completion)"\nCOMP_WORDS=({typed})\nCOMP_CWORD={len(words)}\n'
        "_abeyance_completion abeyance\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    )
    return user.shell(script).stdout.split()


class TestCompletion:
    def test_commands_and_options_are_offered(self, user: Project) -> None:
        assert ["runs"] == completed(user, "ru")
        assert {"resume", "retry"} >= set(completed(user, "runs", "re")) >= {"resume"}
        assert {"--output", "--waitpoint"} <= set(completed(user, "runs", "resume", "--"))
        assert ["init"] == completed(user, "ini")

    def test_installing_it_makes_a_new_shell_complete(self, user: Project) -> None:
        # Which shell it is, is told by the process's parents: so bash must not become the command itself.
        user.shell("abeyance --install-completion; true")

        done = user.shell("set +u; source ~/.bashrc; complete -p abeyance")

        assert "-F _abeyance_completion abeyance" in done.stdout

    @pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
    def test_zsh_takes_its_script(self, user: Project) -> None:
        done = user.shell(
            'zsh -c \'autoload -U compinit; compinit -u; eval "$(abeyance --show-completion)"; '
            "echo $_comps[abeyance]'"
        )

        assert "_abeyance_completion" in done.stdout
