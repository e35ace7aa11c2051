"""Loading a pack: importing one module, and collecting what it defines.

A pack is an importable module or package. What counts as its own are the tools, flows and scripts that stand
under a name in the module or in a submodule that was imported with it, and the tools of its flows' steps. A
pack loads whole or not at all: a wrong definition or an id that two definitions have is refused with
`InvalidDefinitionError`, a pack that can't be found with `ConfigurationError`. There is no unloading:
`abeyance dev` starts a new process.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from abeyance.engine.definitions import Definitions, Flow, Script, Tool
from abeyance.engine.source import format_line
from abeyance.errors import ConfigurationError, InvalidDefinitionError

NO_PACK = (
    'no pack is named: write `[tool.abeyance]` and `pack = "shop"` into pyproject.toml, or give --pack or '
    "ABEYANCE_PACK; `abeyance init` makes a project that has all that"
)
_Kind = TypeVar("_Kind", Tool, Flow, Script)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A loaded pack. `files` are the Python files it was loaded from, for `dev` to watch."""

    name: str
    definitions: Definitions
    files: tuple[Path, ...]


def load_pack(name: str | None, folder: Path) -> Pack:
    """Import the pack `name`, from `folder` or from what is installed, and check what it defines.

    Which pack and folder is a setting: `--pack`, `ABEYANCE_PACK`, or `[tool.abeyance] pack` of
    pyproject.toml.
    """
    if name is None:
        raise ConfigurationError(NO_PACK)
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)
    importlib.invalidate_caches()
    _import(name)
    modules = [module for key, module in sorted(sys.modules.items()) if _belongs(key, name)]
    definitions = collect(modules)
    if not (definitions.tools or definitions.flows or definitions.scripts):
        raise InvalidDefinitionError(
            name, "it defines no tool, flow or script; a package must import its modules in its __init__.py"
        )
    files = [getattr(module, "__file__", None) for module in modules]  # a namespace package has none
    return Pack(name=name, definitions=definitions, files=tuple(Path(file) for file in files if file))


def collect(modules: list[ModuleType]) -> Definitions:
    """What stands in these modules. One object may have several names; one id has one object."""
    definitions = Definitions()
    for module in modules:
        for value in list(vars(module).values()):
            _add(definitions, value)
    return definitions


def _belongs(module: str, pack: str) -> bool:
    return module == pack or module.startswith(f"{pack}.")


def _add(definitions: Definitions, value: Any) -> None:
    # The type's own word: a proxy in a pack may say anything, or raise, when `isinstance` asks it.
    kind = type(value)
    if kind is Tool:
        _put(definitions.tools, value)
    elif kind is Script:
        _put(definitions.scripts, value)
    elif kind is Flow:
        _put(definitions.flows, value)
        for step in value.steps:
            _put(definitions.tools, step.tool)


def _put(table: dict[str, _Kind], value: _Kind) -> None:
    other = table.setdefault(value.id, value)
    if other is not value:
        raise InvalidDefinitionError(
            value.id, f"two definitions have this id: at {other.line} and at {value.line}"
        )


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except InvalidDefinitionError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"there is no module {error.name!r} here: start in the folder of the pack, or install it"
            ) from error
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _import_failed(name: str, error: BaseException) -> InvalidDefinitionError:
    where = next(_lines(error, name), "")
    return InvalidDefinitionError(
        name, f"importing it failed{where}: {type(error).__name__}: {error}".rstrip(": ")
    )


def _lines(error: BaseException, name: str) -> Iterator[str]:
    """The innermost lines of the pack's own code in the traceback, as ` at module:number`."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        if _belongs(module, name):
            yield f" at {format_line(module, number)}"
