"""The shapes of requests about the log."""

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from abeyance.http.schemas import Body, Name, RunId


class ExportBody(Body):
    """Which records: `all` of them, or those of a run, or those signed in a time."""

    all: bool = Field(default=False, description="The whole log: only this proves that nothing is missing.")
    run: RunId | None = Field(default=None, description="Only the records of this run.")
    since: Name | None = Field(default=None, description="Only records from this time on (RFC 3339).")
    until: Name | None = Field(default=None, description="Only records before this time (RFC 3339).")

    @model_validator(mode="after")
    def _says_which(self) -> "ExportBody":
        some = self.run or self.since or self.until
        if self.all == bool(some):
            raise PydanticCustomError("oneOf", "either all, or run, since, until")
        return self
