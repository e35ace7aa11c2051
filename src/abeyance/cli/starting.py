"""`abeyance init`: a project folder that works. `examples/shop` is what it writes for `shop`, and is tested.

The files are those of `template/` beside this module, with the pack's name in them. All are written or none:
one that is there already is never replaced.
"""

import importlib.util
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

_LONGEST_NAME = 60
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "{pack}.py": "pack.py.txt",
    "tests/test_{pack}.py": "test_pack.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The project's folder; made if need be.")
    ] = Path("."),
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The pack's name. Default: made of the folder's."),
    ] = None,
) -> None:
    """Make a new project that works.

    A tool that pauses, a flow that calls it, a test, a README. It replaces no file.
    """
    from abeyance.cli.output import print_value, say, visible

    pack = _checked_name(name, folder)
    written = write_project(folder, pack)
    print_value({"folder": str(folder.resolve()), "pack": pack, "files": written})
    say(visible(f"{folder.resolve()} has a project now. Next:"))
    if folder.resolve() != Path.cwd():
        say(visible(f"  cd {folder}"))
    say(f"  {pack.upper()}_CARRIER_FILE=carrier.jsonl abeyance dev")
    say("  and in another terminal there:")
    say(f"""  abeyance runs start --flow={pack}.ship-order --input='{{"orderId":"ord_1001"}}'""")
    say("README.md goes on from there; `abeyance doctor` says whether anything is missing.")


def project_files(pack: str) -> dict[str, str]:
    """The files of a project: their paths in its folder, and their texts."""
    template = files("abeyance.cli").joinpath("template")
    words = {"__pack__": pack, "__PACK__": pack.upper(), "__project__": pack.replace("_", "-")}
    return {
        path.format(pack=pack): re.sub(
            "|".join(words), lambda found: words[found[0]], template.joinpath(source).read_text("utf-8")
        )
        for path, source in _FILES.items()
    }


def write_project(folder: Path, pack: str) -> list[str]:
    """Write them; their paths. Raises `ConfigurationError`, and then nothing of it stays."""
    from abeyance.errors import ConfigurationError

    texts = project_files(pack)
    there = [path for path in texts if (folder / path).exists() or (folder / path).is_symlink()]
    if there:
        raise ConfigurationError(
            f"{folder} has {', '.join(there)} already; no file is replaced: name another folder"
        )
    written: list[Path] = []
    try:
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as stream:
                written.append(file)
                stream.write(text)
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        raise ConfigurationError(f"{error.filename or folder} can't be written: {error.strerror}") from error
    return list(texts)


def _checked_name(given: str | None, folder: Path) -> str:
    """The name of module and ids: lower case, and no module's that Python finds already."""
    made = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    name = made if given is None else given
    advice = "give another one with --name"
    if len(name) > _LONGEST_NAME or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise _mistake(
            f"{name!r} is no pack's name: it takes a-z, 0-9 and _, a letter first, "
            f"at most {_LONGEST_NAME}; {advice}"
        )
    if name in sys.stdlib_module_names or _is_installed(name):
        raise _mistake(f"a module called {name!r} is there already, and would be found instead; {advice}")
    return name


def _is_installed(name: str) -> bool:
    try:
        found = importlib.util.find_spec(name)
        return name == "tests" or (found is not None and found.origin is not None)  # a folder has no origin
    except (ImportError, ValueError):
        return True


def _mistake(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--name")
