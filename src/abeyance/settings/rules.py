"""What a setting must look like: each rule takes the text, and returns the value or raises `ValueError`.

The message of a `ValueError` is the rule alone: the value may be a secret and is never part of it.
"""

import base64
import binascii
import ipaddress
import re
import shlex
import tomllib
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from abeyance.errors import ConfigurationError

KEY_LIMIT_BYTES = 16_384
_VISIBLE = "must be a URL of visible ASCII characters, others percent-encoded"
_ON = {"on", "true", "yes", "1"}
_OFF = {"off", "false", "no", "0"}


def read_switch(value: object) -> object:
    """`on` or `off`, in any of the usual spellings."""
    word = str(value).lower()
    if word not in _ON | _OFF:
        raise ValueError("must be on or off")
    return word in _ON


def lower(value: object) -> object:
    """Upper and lower case mean the same."""
    return value.lower() if isinstance(value, str) else value


def absolute(path: Path) -> Path:
    """A path that still means the same after the process has changed its folder."""
    return path.expanduser().absolute()


def check_origin(text: str) -> str:
    """The name of the log (c2sp.org/tlog-checkpoint): no white space, no plus sign."""
    if not re.fullmatch(r"[!-*,-~]{1,200}", text):
        raise ValueError(
            "must be 1 to 200 visible ASCII characters without + and spaces, such as shop.example.com/runs"
        )
    return text


def check_api_key(text: str) -> str:
    """A bearer token: long enough to be no word, and fit for a header. A file's line end doesn't count."""
    key = text.strip()
    if not re.fullmatch(r"[!-~]{16,512}", key):
        raise ValueError("must be 16 to 512 visible ASCII characters without spaces")
    return key


def check_pack(text: str) -> str:
    """A module's name, as `import` takes it."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("must be the name of a module, such as shop or shop.flows")
    return text


def check_host(text: str) -> str:
    """A name or an address, without brackets, port or scheme."""
    if not re.fullmatch(r"[A-Za-z0-9._:%-]{1,253}", text) or ("://" in text):
        raise ValueError("must be a host name or an IP address, without scheme and port")
    return text


def check_public_url(text: str) -> str:
    """What links are made from: http or https, a host, maybe a port and a path; nothing else."""
    parts = _split(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL, such as https://runs.example.com")
    if "?" in text or "#" in text:
        raise ValueError("must have no query and no fragment: the link's path is added at its end")
    if "@" in parts.netloc:
        raise ValueError("must have no user name and no password")
    return text.rstrip("/")


def check_database_url(text: str) -> str:
    """`sqlite:///path` (four slashes: from the root) or `postgresql://…`."""
    if is_postgres(text):
        if not re.fullmatch(r"[!-~]+", text):
            raise ValueError(_VISIBLE)
        return text
    file = sqlite_file(text)
    if file is None or file.name in ("", ":memory:") or "?" in text:
        raise ValueError("must be sqlite:///path/to/file or postgresql://user@host/database")
    return text


PROGRAM = "exec:"


def program_of(text: str) -> list[str]:
    """The command after `exec:`, split as a shell does. Raises `ValueError`."""
    return shlex.split(text.removeprefix(PROGRAM)) or [""]


def check_key(text: str) -> str:
    """A key's place: the path of its file, the key itself after `base64:`, or after `exec:` the program that
    holds it.
    """
    if text.startswith("base64:"):
        _decode(text)
    if text.startswith(PROGRAM) and not program_of(text)[0].startswith("/"):
        raise ValueError("exec: takes the path of a program from the root, and its arguments")
    return text


def check_proxies(text: str) -> str:
    """The proxies whose word on a client's address is believed."""
    try:
        networks = [ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            "must be addresses or networks with commas between, such as 10.0.0.0/8,::1"
        ) from None
    return ",".join(str(network) for network in networks)


def is_postgres(url: str) -> bool:
    """Whether a database URL names PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


def sqlite_file(url: str) -> Path | None:
    """The file that a `sqlite:///` URL names, as it stands there; `None` for another URL."""
    head, slashes, path = url.partition(":///")
    return Path(path) if head == "sqlite" and slashes else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_key(variable: str, text: str) -> bytes:
    """The bytes of a key that stands after `base64:` or in a file. Raises `ConfigurationError`."""
    if text.startswith("base64:"):
        return _decode(text)
    try:
        with Path(text).expanduser().open("rb") as file:
            content = file.read(KEY_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{variable}: the key file can't be read ({error.strerror})") from error
    if not content or len(content) > KEY_LIMIT_BYTES:
        raise ConfigurationError(f"{variable}: the key file is empty or over {KEY_LIMIT_BYTES} bytes")
    return content


def nearest_project(start: Path) -> Path | None:
    """The `pyproject.toml` with a `[tool.abeyance]` table in `start` or the nearest folder above it."""
    for folder in (start, *start.parents):
        if "abeyance" in _tools(folder / "pyproject.toml"):
            return folder / "pyproject.toml"
    return None


def pack_of(pyproject: Path) -> str | None:
    """What `[tool.abeyance] pack` says."""
    table = _tools(pyproject).get("abeyance")
    pack = table.get("pack") if isinstance(table, dict) else None
    if pack is not None and not isinstance(pack, str):
        raise ConfigurationError(f"{pyproject}: [tool.abeyance] pack must be the name of a module")
    return pack


def _tools(pyproject: Path) -> dict[str, object]:
    if not pyproject.is_file():
        return {}
    try:
        tool = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{pyproject} can't be read as TOML: {type(error).__name__}") from error
    return tool if isinstance(tool, dict) else {}


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is the check
    except ValueError:
        raise ValueError("must be a URL with a valid host and port") from None
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError(_VISIBLE)
    return parts


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix("base64:"), validate=True)
    except binascii.Error:
        raise ValueError("must be a path, or base64: and then the key in base64") from None
