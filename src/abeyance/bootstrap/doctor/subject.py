"""What the doctor looks at: the settings, and what several checks ask of the store, read once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from abeyance.bootstrap.doctor.probes import NewestRun, newest_run
from abeyance.bootstrap.identity import Identity, read_identity
from abeyance.bootstrap.tables import TableSet, log_rows, table_sets
from abeyance.bootstrap.upkeep import is_dev
from abeyance.journal.store import EventRow
from abeyance.settings import Settings
from abeyance.settings.model import Role


@dataclass(frozen=True)
class Subject:
    """A deployment as its settings name it, and the process that shall start."""

    settings: Settings
    role: Role

    @classmethod
    def of(cls, settings: Settings, role: Role | None) -> "Subject":
        """Without a role: `dev`, unless something is set that only the others need."""
        served = settings.on_postgres or settings.origin or settings.api_key or not is_dev(settings)
        return cls(settings, role or ("serve" if served else "dev"))

    @property
    def key_dir(self) -> Path | None:
        """The folder of the deployment's keys; that of `dev` is where it makes them."""
        made_by_dev = self.settings.data_dir / "keys"
        return self.settings.key_dir or (made_by_dev if self.role == "dev" else None)

    @property
    def with_keys(self) -> Settings:
        """The settings, with that folder."""
        return self.settings.model_copy(update={"key_dir": self.key_dir})

    @cached_property
    def tables(self) -> dict[str, TableSet]:
        """The sets of tables by name. Raises what `table_sets` raises."""
        return {tables.name: tables for tables in table_sets(self.settings)}

    @cached_property
    def log(self) -> list[EventRow]:
        """The deployment's own stream."""
        return log_rows(self.settings)

    @cached_property
    def identity(self) -> Identity | None:
        """Who the deployment is; `None` while the store is new."""
        return read_identity(self.log) if self.log else None

    @cached_property
    def newest(self) -> NewestRun | None:
        """The run that was started last."""
        return newest_run(self.settings)
