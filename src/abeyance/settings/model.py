"""The settings: name, unit, default, and the rule that each value must keep.

A setting is read from its variable (`ABEYANCE_` and its name in capitals). A flag of the command line goes
before it, and `[tool.abeyance] pack` of the project's `pyproject.toml` comes after it. An empty variable
is an unset one. A value that breaks its rule stops the start with `ConfigurationError`, which names the
variable and the rule and never shows the value. The reference page is generated from the descriptions.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from abeyance.errors import ConfigurationError
from abeyance.settings import rules

PREFIX = "ABEYANCE_"

# Read by `abeyance.client`, which also runs where nothing else of this page matters.
CLIENT_VARIABLES = {
    f"{PREFIX}API_URL": "Where the CLI and `abeyance.Client` send requests, with `ABEYANCE_API_KEY` as the "
    "token. Unset: the `abeyance dev` that runs in this project, else the one that was started last.",
    f"{PREFIX}WORKSPACE": "The workspace that the CLI and `abeyance.Client` work in with the deployment's "
    "key; an API key has its own. Unset: `default`.",
}

KeyName = Literal["root", "event", "log", "master"]
Role = Literal["dev", "serve", "worker"]

Folder = Annotated[Path, AfterValidator(rules.absolute)]
Switch = Annotated[bool, BeforeValidator(rules.read_switch)]
DatabaseUrl = Annotated[str, AfterValidator(rules.check_database_url)]
Key = Annotated[str, AfterValidator(rules.check_key)]
Level = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(rules.lower)]


class Settings(BaseSettings):
    """One process's settings. Made by `Settings.load`; the constructor alone reads no variable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    origin: Annotated[str, AfterValidator(rules.check_origin)] | None = Field(
        None,
        description="The name of this deployment's log, in every signed record and for ever: visible "
        "ASCII, such as `shop.example.com/runs`. A new store needs it; a store that has another one is "
        "refused.",
        json_schema_extra={"unset": "`localhost/` and 8 random hex digits under `dev`"},
    )
    database_url: DatabaseUrl | None = Field(
        None,
        description="The journal: `sqlite:///path` (four slashes: from the root) for one process on one "
        "machine, `postgresql://user@host/database` for many.",
        json_schema_extra={"unset": "`journal.db` in the data folder"},
        repr=False,
    )
    keys_url: DatabaseUrl | None = Field(
        None,
        description="The store of the runs' keys, apart from the journal so that an erased key isn't in "
        "the journal's backups: `sqlite:///path` or `postgresql://…`.",
        json_schema_extra={
            "unset": "with SQLite `keys.db` in a folder of its own beside the journal, else a schema of "
            "its own in the journal's database"
        },
        repr=False,
    )
    data_dir: Folder = Field(
        Path(".abeyance"),
        validate_default=True,
        description="The folder of everything that a process keeps on disk: journal, keys of `dev`, and "
        "the private file by which the CLI finds `abeyance dev`.",
        json_schema_extra={
            "unset": "`.abeyance` in the project's folder (see below), else in the current one"
        },
    )
    project_dir: Folder | None = Field(
        None,
        description="The folder that the pack is imported from; it goes in front of Python's path.",
        json_schema_extra={
            "unset": "the nearest folder upwards whose `pyproject.toml` has `[tool.abeyance]`, else the "
            "current one"
        },
    )
    pack: Annotated[str, AfterValidator(rules.check_pack)] | None = Field(
        None,
        description="The importable module that defines tools, flows and scripts.",
        json_schema_extra={"unset": "`[tool.abeyance] pack` of the project's `pyproject.toml`"},
    )
    key_dir: Folder | None = Field(
        None,
        description="The folder with `event.pem`, `log.pem` (Ed25519, PKCS#8) and `master.key` (32 bytes), "
        "as `abeyance keys make` writes them, and `root.pem`, which only a new store and `abeyance keys "
        "signing` need. `serve` and `worker` need it, or the keys below.",
        json_schema_extra={"unset": "under `dev`: `keys` in the data folder, made at the first start"},
    )
    root_key: Key | None = Field(
        None,
        description="The key that certifies the others: the path of a PEM file, `base64:` and the PEM in "
        "base64, or `exec:` and a program that holds the key and signs with it. Goes before the one in "
        "`ABEYANCE_KEY_DIR`. Only a new store and `abeyance keys signing` need it.",
        repr=False,
    )
    event_key: Key | None = Field(
        None,
        description="The key that signs events: as `ABEYANCE_ROOT_KEY`.",
        repr=False,
    )
    log_key: Key | None = Field(
        None,
        description="The key that signs the log's checkpoints: as `ABEYANCE_ROOT_KEY`.",
        repr=False,
    )
    master_key: Key | None = Field(
        None,
        description="The key that wraps the runs' keys: the path of a file of 32 bytes, or `base64:` "
        "and the bytes.",
        repr=False,
    )
    audit_mirror: Folder | None = Field(
        None,
        description="A folder that is there, in which the log's keeper keeps a copy of the signed records, "
        "tiles and checkpoint (C2SP tlog-tiles), a second or two behind. A store that is behind this copy "
        "is refused.",
        json_schema_extra={"unset": "no copy is kept"},
    )
    public_url: Annotated[str, AfterValidator(rules.check_public_url)] | None = Field(
        None,
        description="The address other systems reach this server at; links are made from it. http or "
        "https, a path is kept, no query and no fragment. `worker` doesn't start without it.",
        json_schema_extra={"unset": "the address that the server binds, with a warning under `serve`"},
    )
    host: Annotated[str, AfterValidator(rules.check_host)] = Field(
        "127.0.0.1", description="The address that the server binds."
    )
    port: int = Field(
        8420, ge=0, le=65_535, description="The TCP port that the server binds; 0 takes a free one."
    )
    auth: Switch = Field(
        True,
        description="Whether requests need the key (`on` or `off`). `off` only with a loopback address "
        "in `ABEYANCE_HOST`. The links of waits never need one.",
    )
    api_key: Annotated[str, AfterValidator(rules.check_api_key)] | None = Field(
        None,
        description="The deployment's key, which may do everything in every workspace, sent as "
        "`Authorization: Bearer <key>`: 16 to 512 visible ASCII characters. It is for operators: apps "
        "get API keys (`abeyance keys create`). The CLI and `abeyance.Client` send it to `ABEYANCE_API_URL`.",
        json_schema_extra={"unset": "under `dev`: a new one at each start; `serve` needs one"},
        repr=False,
    )
    trusted_proxies: Annotated[str, AfterValidator(rules.check_proxies)] | None = Field(
        None,
        description="Addresses and networks, with commas between, of the proxies whose word on a client's "
        "address is believed (`X-Forwarded-For`, `Forwarded`), such as `10.0.0.0/8,::1`. A Unix socket "
        "counts as `127.0.0.1`.",
        json_schema_extra={"unset": "none is believed"},
    )
    workers: int = Field(1, ge=1, le=64, description="Processes of `serve`. More than 1 needs PostgreSQL.")
    execute: Switch = Field(
        True, description="Whether this process executes runs (`on`), or only serves requests (`off`)."
    )
    max_calls: int = Field(16, ge=1, le=1_000, description="Calls of tools that a process runs at once.")
    max_waiting: int = Field(
        1_000,
        ge=0,
        le=100_000,
        description="Requests that a process lets wait for a run at once; one more is answered with the "
        "run as it is.",
    )
    link_rate: int = Field(
        600,
        ge=0,
        le=1_000_000,
        description="Requests to links a minute and client, over all processes, whatever they are answered; "
        "one more is refused (`429`, with `Retry-After`). A client is an IPv4 address or an IPv6 network of "
        "64 bits. 0 sets no limit.",
    )
    poll_ms: int = Field(
        1_000, ge=10, le=60_000, description="Milliseconds between two looks for work whose wake-up was lost."
    )
    lease_s: int = Field(
        60,
        ge=2,
        le=3_600,
        description="Seconds after which another process takes over the run of one that died.",
    )
    hot_runs: int = Field(
        512,
        ge=0,
        le=100_000,
        description="Runs suspended a moment ago that a process keeps in memory, so that a quick answer "
        "needs no reading; 0 keeps none.",
    )
    drain_s: int = Field(
        10,
        ge=0,
        le=600,
        description="Seconds that running calls get to end when the process is told to stop.",
    )
    log_level: Level = Field(
        "info", description="The least that is logged: `debug`, `info`, `warning` or `error`."
    )

    @classmethod
    def load(
        cls, env: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None
    ) -> Self:
        """Read the settings from `env` (default: the process's variables); `overrides` go before them.

        `overrides` has fields' names as keys; `None` in it is no override. Raises `ConfigurationError`.
        """
        given = os.environ if env is None else env
        variables = {field: given.get(variable_of(field)) for field in cls.model_fields}
        values: dict[str, Any] = {field: text for field, text in variables.items() if text}
        values |= {field: value for field, value in (overrides or {}).items() if value is not None}
        project = rules.nearest_project(Path.cwd())
        if project:
            values = {
                "project_dir": project.parent,
                "pack": rules.pack_of(project),
                "data_dir": project.parent / ".abeyance",
            } | values
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigurationError("; ".join(map(_broken_rule, error.errors()))) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` was given: the process's variables are an argument, not a global."""
        return (init_settings,)

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        if not self.auth and not rules.is_loopback(self.host):
            raise ConfigurationError(
                "ABEYANCE_AUTH: off is only for a loopback address in ABEYANCE_HOST, such as 127.0.0.1"
            )
        if self.workers > 1 and not self.on_postgres:
            raise ConfigurationError(
                "ABEYANCE_WORKERS: more than one process needs PostgreSQL; set ABEYANCE_DATABASE_URL=postgresql://…"
            )
        if self.keys_file is not None and self.keys_file == self.journal_file:
            raise ConfigurationError("ABEYANCE_KEYS_URL: must be another file than the journal's")
        return self

    @property
    def on_postgres(self) -> bool:
        """Whether the journal is in PostgreSQL."""
        return self.database_url is not None and rules.is_postgres(self.database_url)

    @property
    def journal_file(self) -> Path | None:
        """The journal's SQLite file, absolute; `None` on PostgreSQL."""
        if self.database_url is None:
            return self.data_dir / "journal.db"
        file = rules.sqlite_file(self.database_url)
        return rules.absolute(file) if file else None

    @property
    def keys_file(self) -> Path | None:
        """The key store's SQLite file, absolute; `None` if the key store is in PostgreSQL."""
        if self.keys_url is not None:
            file = rules.sqlite_file(self.keys_url)
            return rules.absolute(file) if file else None
        journal = self.journal_file
        return journal.with_suffix(".keys") / "keys.db" if journal else None

    @property
    def pack_dir(self) -> Path:
        """The folder that the pack is imported from, absolute."""
        return self.project_dir or Path.cwd()

    def key(self, name: KeyName) -> bytes | None:
        """The key's file content or given bytes; `None` if neither it nor a key folder is set.

        `None` also stands for a folder without the root key, which is kept elsewhere. Raises
        `ConfigurationError` that names the variable if a key can't be read.
        """
        given: str | None = {
            "root": self.root_key,
            "event": self.event_key,
            "log": self.log_key,
            "master": self.master_key,
        }[name]
        if given is not None:
            return rules.read_key(variable_of(f"{name}_key"), given)
        if self.key_dir is None:
            return None
        file = self.key_dir / ("master.key" if name == "master" else f"{name}.pem")
        if name == "root" and not file.exists():
            return None
        return rules.read_key(variable_of("key_dir"), str(file))

    def signing_program(self, name: KeyName) -> list[str] | None:
        """The command of the program that holds the key, if one does (`exec:`)."""
        given = {"root": self.root_key, "event": self.event_key, "log": self.log_key}.get(name)
        return rules.program_of(given) if given is not None and given.startswith(rules.PROGRAM) else None

    def check_for(self, role: Role) -> None:
        """Raise `ConfigurationError` unless a process of this kind has what it needs."""
        if role == "worker" and self.public_url is None:
            raise ConfigurationError(
                "ABEYANCE_PUBLIC_URL is not set: a worker binds no address that links could be made from; "
                "set it to the address at which other systems reach the server"
            )
        if role == "serve" and self.auth and self.api_key is None:
            raise ConfigurationError(
                "ABEYANCE_API_KEY is not set: the server needs the key that requests must carry"
            )
        keys: tuple[KeyName, ...] = ("event", "log", "master")
        missing = [variable_of(f"{name}_key") for name in keys if not getattr(self, f"{name}_key")]
        if role != "dev" and self.key_dir is None and missing:
            raise ConfigurationError(
                f"ABEYANCE_KEY_DIR is not set (nor {', '.join(missing)}): "
                "make keys once with `abeyance keys make DIR`"
            )


def variable_of(field: str) -> str:
    """The variable of a setting."""
    return PREFIX + field.upper()


def unknown_variables(env: Mapping[str, str]) -> dict[str, str | None]:
    """The variables in `env` that look like settings and are none, each with the one that may be meant."""
    known = [variable_of(field) for field in Settings.model_fields] + list(CLIENT_VARIABLES)
    unknown = [
        name
        for name in sorted(env)
        if name.startswith(PREFIX) and name not in known and not name.startswith(f"{PREFIX}TEST_")
    ]
    return {
        name: next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.85)), None) for name in unknown
    }


def _broken_rule(error: Any) -> str:
    rule = str(error["msg"]).removeprefix("Value error, ")
    return f"{variable_of(str(error['loc'][0]))}: {rule[:1].lower()}{rule[1:]}"
