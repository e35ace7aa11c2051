"""Which server the client and the CLI talk to. The rule, in this order:

1. What was given: `Client(base_url, token)`, `--url`. A token that isn't given is `ABEYANCE_API_KEY`.
2. `ABEYANCE_API_URL`, with `ABEYANCE_API_KEY`.
3. The private file of a running `abeyance dev`: `dev.json` in `ABEYANCE_DATA_DIR` if that is set, else in the
   folder `.abeyance` of the current folder or the nearest one above it.
4. `$XDG_RUNTIME_DIR/abeyance/dev.json`: the `abeyance dev` that this person started last.

The file holds the server's URL, its token and its process id. `dev` writes it when it listens and removes it
when it stops. It is taken only if it is the user's own and nobody else can read it, so that nobody can plant
one in a shared folder; and only while its process lives.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from abeyance.client.errors import ServerNotFound

FILE_NAME = "dev.json"
_LIMIT_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go, and the token that they carry. `found_in` is the file that said so, if one did."""

    url: str
    token: str | None
    found_in: Path | None = None

    def __repr__(self) -> str:
        return f"Server(url={self.url!r}, found_in={self.found_in})"


def find_server(base_url: str | None, token: str | None, env: Mapping[str, str] = os.environ) -> Server:
    """Find the server by the rule above. Raises `ServerNotFound`."""
    url = base_url or env.get("ABEYANCE_API_URL")
    if url:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ServerNotFound("the server's address must be an http or https URL")
        return Server(url.rstrip("/"), token or (env.get("ABEYANCE_API_KEY") or "").strip() or None)
    skipped: list[str] = []
    for path in _places(Path.cwd(), env):
        try:
            server = _read(path)
        except (OSError, ValueError) as error:
            skipped.append(f"{path} is left aside: {error}")
            continue
        if server is not None:
            return Server(server.url, token or server.token, path)
    raise ServerNotFound(
        "no server: start `abeyance dev`, or set ABEYANCE_API_URL and ABEYANCE_API_KEY"
        + "".join(f"; {reason}" for reason in skipped)
    )


def find_workspace(env: Mapping[str, str] = os.environ) -> str | None:
    """The workspace to work in: `ABEYANCE_WORKSPACE`."""
    return env.get("ABEYANCE_WORKSPACE", "").strip() or None


def write_dev_file(path: Path, *, url: str, token: str | None, pid: int) -> None:
    """Write the private file (0600, its folder 0700) in one move, so that a reader sees all of it or none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{pid}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"url": url, "token": token, "pid": pid}, file)
    draft.replace(path)


def remove_dev_file(path: Path, *, pid: int) -> None:
    """Remove the file if it is this process's own: a server that was started since keeps its."""
    with contextlib.suppress(OSError, ValueError):
        if _load(path).get("pid") == pid:
            path.unlink()


def dev_files(data_dir: Path, env: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that `abeyance dev` writes: in its data folder, and in the user's runtime folder."""
    runtime = env.get("XDG_RUNTIME_DIR")
    return [data_dir / FILE_NAME, *([Path(runtime) / "abeyance" / FILE_NAME] if runtime else [])]


def _places(start: Path, env: Mapping[str, str]) -> Iterator[Path]:
    data_dir = env.get("ABEYANCE_DATA_DIR")
    if data_dir:
        yield from dev_files(Path(data_dir).expanduser(), env)
    else:
        yield from (folder / ".abeyance" / FILE_NAME for folder in (start, *start.parents))
        yield from dev_files(start, env)[1:]


def _read(path: Path) -> Server | None:
    try:
        content = _load(path)
    except FileNotFoundError:
        return None
    url, token, pid = content.get("url"), content.get("token"), content.get("pid")
    if not isinstance(url, str) or not isinstance(token, str | None) or not isinstance(pid, int) or pid < 1:
        raise ValueError("it isn't one that `abeyance dev` wrote")
    if not _lives(pid):
        raise ValueError("the server that wrote it has gone; start `abeyance dev` again")
    return Server(url.rstrip("/"), token)


def _load(path: Path) -> dict[str, object]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("it isn't a file of yours")
        if status.st_mode & 0o077:
            raise ValueError("others may read it (its mode should be 0600)")
        content = json.loads(file.read(_LIMIT_BYTES))
    if not isinstance(content, dict):
        raise ValueError("it isn't one that `abeyance dev` wrote")
    return content


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    return True
