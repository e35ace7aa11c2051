"""Write ``docs/reference/settings.md`` from the settings: ``python -m scripts.settings_reference``.

``tests/unit/test_settings.py`` compares the page with what this writes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abeyance.settings import CLIENT_VARIABLES, Settings
from abeyance.settings.model import variable_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"

HEAD = """# Settings

<!-- Written by `python -m scripts.settings_reference`; the texts are in `src/abeyance/settings/model.py`. -->

Every setting is a variable. A flag of the command line goes before its variable, and `[tool.abeyance] pack`
of the project's `pyproject.toml` comes after `ABEYANCE_PACK`. An empty variable is an unset one. A value that
breaks its rule stops the start: the message names the variable and the rule, and never shows the value. A
variable that looks like a setting and is none is told with a warning.

Switches take `on` or `off` (also `true`, `yes`, `1` and `false`, `no`, `0`).

"""

FIND = """## How the client finds a server

The command line and `abeyance.Client` take, in this order:

1. what was given: `--url`, `Client(base_url, token)`; a token that isn't given is `ABEYANCE_API_KEY`;
2. `ABEYANCE_API_URL`, with `ABEYANCE_API_KEY`;
3. the private file of a running `abeyance dev`: `dev.json` in `ABEYANCE_DATA_DIR` if that is set, else in the
   folder `.abeyance` of the current folder or the nearest one above it;
4. `$XDG_RUNTIME_DIR/abeyance/dev.json`: the `abeyance dev` that was started last.

The file holds URL, token and process id. It is taken only if it belongs to you, nobody else can read it
(`0600`), and its process lives.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_sections()) + FIND


def _sections() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        yield f"## `{variable_of(name)}`\n\n{field.description}\n\n{_default(field)}\n\n"
    for variable, description in CLIENT_VARIABLES.items():
        yield f"## `{variable}`\n\n{description}\n\n"


def _default(field: Any) -> str:
    extra = field.json_schema_extra or {}
    if "unset" in extra:
        return f"Unset: {extra['unset']}."
    if field.default is None:
        return "Unset: the one in `ABEYANCE_KEY_DIR`."
    value = {True: "on", False: "off"}[field.default] if isinstance(field.default, bool) else field.default
    return f"Default: `{value}`{_range(field)}."


def _range(field: Any) -> str:
    bounds = {
        kind: getattr(rule, kind) for rule in field.metadata for kind in ("ge", "le") if hasattr(rule, kind)
    }
    return f", from {bounds['ge']} to {bounds['le']}" if bounds else ""


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
