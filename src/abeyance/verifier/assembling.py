"""Writes the verifier as one file, `abeyance-verify.py`, that needs only Python and `cryptography`."""

import re
from importlib.resources import files

_MODULES = (
    "findings", "hashing", "signatures", "records", "keys", "runs", "purges", "openings", "checkpoints",
    "bundle", "pool", "verification", "command",
)  # fmt: skip
_OWN_IMPORT = re.compile(r"^from abeyance\.verifier\.\w+ import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_IMPORT = re.compile(r"^(?:import \S+|from [\w.]+ import (?:\([^)]*\)|[^\n]*))\n", re.MULTILINE)
_MAIN = re.compile(r'^if __name__ == "__main__":\n.*', re.MULTILINE | re.DOTALL)
_HEAD = '''#!/usr/bin/env python3
"""abeyance-verify: verify exported records of abeyance, offline. Made of abeyance {version}; Apache-2.0.

    python3 abeyance-verify.py BUNDLE --root-key KEY

Needs Python 3.11 or newer and the package `cryptography`. Opens no socket.
"""
'''


def assemble(version: str) -> str:
    """The program's text."""
    folder = files("abeyance.verifier")
    imports, bodies = set[str](), []
    for name in _MODULES:
        text = _OWN_IMPORT.sub("", (folder / f"{name}.py").read_text("utf-8"))
        text = _MAIN.sub("", text)
        imports |= {found[0] for found in _IMPORT.finditer(text)}
        bodies.append(_separated(name, _IMPORT.sub("", text)))
    lines = "".join(sorted(imports))
    main = 'if __name__ == "__main__":\n    sys.exit(main())\n'
    return "\n\n".join([_HEAD.format(version=version), lines, *bodies, main])


def read_page() -> str:
    """The page that verifies in a browser."""
    return (files("abeyance.verifier") / "verify.html").read_text("utf-8")


def _separated(name: str, text: str) -> str:
    """The module's text with its private names marked, so that no two modules share one."""
    own = set(re.findall(r"^(_[A-Za-z]\w*)(?=[ ,:=])", text, re.MULTILINE))
    own |= set(re.findall(r"^(?:def|class) (_\w+)", text, re.MULTILINE))
    own |= {
        each for line in re.findall(r"^(_\w+(?:, _\w+)+) =", text, re.MULTILINE) for each in line.split(", ")
    }
    for each in own:
        text = re.sub(rf"(?<![\w.]){each}\b", f"_{name}{each}", text)
    return text.strip("\n") + "\n"
