"""What a user imports from `abeyance`, in full, and what importing it costs."""

import subprocess
import sys

import abeyance

NAMES = [
    "AbeyanceError",
    "BranchCancelled",
    "CallFailedError",
    "Client",
    "InvalidDefinitionError",
    "InvalidPauseError",
    "PauseAnswer",
    "PauseNotAvailableError",
    "Retry",
    "ScriptContext",
    "ToolContext",
    "UnexpectedResponseError",
    "WaitToken",
    "__version__",
    "flow",
    "http_tool",
    "script",
    "step",
    "tool",
]


class TestPublicNames:
    def test_these_names_are_public_and_no_others(self) -> None:
        assert NAMES == abeyance.__all__

    def test_every_public_name_is_there(self) -> None:
        assert [] == [name for name in NAMES if getattr(abeyance, name, None) is None]
        assert set(NAMES) <= set(dir(abeyance))

    def test_importing_the_package_loads_nothing_else(self) -> None:
        """The command line's help and version shall not wait for the engine."""
        code = "import abeyance, sys; print({'pydantic', 'httpx', 'logging'} & set(sys.modules))"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert "set()" == run.stdout.strip()
