"""Loading packs: whole or not at all, with the reason."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abeyance import InvalidDefinitionError
from abeyance.engine.packs import Pack, load_pack
from abeyance.errors import ConfigurationError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TOOL = """
    from abeyance import flow, script, step, tool

    @tool(id="{id}")
    def a(number: int) -> int:
        return number
"""


@pytest.fixture(autouse=True)
def _fresh_interpreter() -> Iterator[None]:
    """A pack is loaded once a process; here every test starts as if it were a new one."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], None]:
    def write_file(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")

    return write_file


def load(folder: Path, name: str = "a_pack") -> Pack:
    return load_pack(name, folder)


def refused(folder: Path) -> InvalidDefinitionError:
    with pytest.raises(InvalidDefinitionError) as caught:
        load(folder)
    return caught.value


class TestLoadPack:
    def test_the_example_is_loaded(self) -> None:
        pack = load_pack("shop", EXAMPLES / "shop")

        assert ["shop.request-pickup"] == list(pack.definitions.tools)
        assert ["shop.ship-order"] == list(pack.definitions.flows)
        assert (EXAMPLES / "shop" / "shop.py",) == pack.files
        assert pack.definitions.tools["shop.request-pickup"].line.startswith("shop:")

    def test_all_kinds_are_found_and_the_tools_of_steps(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("elsewhere.py", TOOL.format(id="other.tool"))
        write(
            "a_pack.py",
            """
            import elsewhere
            from abeyance import flow, script, step

            f = flow("a.flow", input=int, steps=[step("only", elsewhere.a)])
            same = f

            @script(id="a.script")
            async def s(ctx, number: int) -> int:
                return number
            """,
        )

        found = load(tmp_path).definitions

        assert (["other.tool"], ["a.flow"], ["a.script"]) == (
            list(found.tools),
            list(found.flows),
            list(found.scripts),
        )

    def test_a_package_brings_the_modules_that_it_imports(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("a_pack/__init__.py", "import a_pack.tools")
        write("a_pack/tools.py", TOOL.format(id="a.tool"))
        write("a_pack/unused.py", "raise RuntimeError")

        pack = load(tmp_path)

        assert ["a.tool"] == list(pack.definitions.tools)
        assert {"__init__.py", "tools.py"} == {file.name for file in pack.files}

    def test_two_definitions_of_one_id_are_refused(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("a_pack.py", TOOL.format(id="a.tool") + TOOL.format(id="a.tool").replace("def a(", "def b("))

        error = refused(tmp_path)

        assert "a.tool" == error.definition
        assert "a_pack:4" in error.reason
        assert "a_pack:10" in error.reason

    def test_a_wrong_definition_is_refused_with_its_reason(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("a_pack.py", TOOL.format(id="Not an id"))

        assert "lower-case" in refused(tmp_path).reason

    def test_a_pack_that_breaks_is_refused_at_its_line(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("a_pack.py", "import json\njson.loads('')\n")
        assert "a_pack:2: JSONDecodeError" in refused(tmp_path).reason

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("def", "SyntaxError"),
            ("import no_such_thing", "no_such_thing"),
        ],
    )
    def test_whatever_breaks_is_refused(
        self, tmp_path: Path, write: Callable[[str, str], None], text: str, error: str
    ) -> None:
        write("a_pack.py", text)

        assert error in refused(tmp_path).reason

    def test_a_pack_that_defines_nothing_is_refused(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write("a_pack.py", "")

        assert "no tool, flow or script" in refused(tmp_path).reason

    @pytest.mark.parametrize("name", ["no_such_pack", "no_such.pack", None])
    def test_a_pack_that_is_not_there_is_named(self, tmp_path: Path, name: str | None) -> None:
        with pytest.raises(ConfigurationError) as caught:
            load_pack(name, tmp_path)

        assert (name or "pyproject.toml").partition(".")[0] in str(caught.value)

    def test_values_that_lie_about_their_type_do_not_matter(
        self, tmp_path: Path, write: Callable[[str, str], None]
    ) -> None:
        write(
            "a_pack.py",
            TOOL.format(id="a.tool")
            + """
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("outside of a request")

    proxy = Proxy()
    """,
        )

        assert ["a.tool"] == list(load(tmp_path).definitions.tools)
