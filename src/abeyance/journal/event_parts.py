"""What the classes of events are made of: their base, and the types of their fields."""

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

DEPLOYMENT_STREAM = UUID("00000000-0000-7000-8000-000000000000")


def format_moment(moment: datetime) -> str:
    """`YYYY-MM-DDThh:mm:ss.ffffffZ`, 27 characters, UTC: the only form of a time in a signed body."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def parse_moment(text: object) -> datetime:
    """The moment that `format_moment` wrote. Raises `ValueError` for any other text."""
    if isinstance(text, datetime):
        return text
    if not isinstance(text, str) or len(text) != 27 or text[26] != "Z" or text[19] != ".":
        raise ValueError("a time is YYYY-MM-DDThh:mm:ss.ffffffZ")
    return datetime.fromisoformat(text[:26]).replace(tzinfo=UTC)


Moment = Annotated[datetime, BeforeValidator(parse_moment), PlainSerializer(format_moment)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ArgsDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0)]
Ordinal = Annotated[int, Field(ge=1)]
Grant = Literal["read", "write", "execute", "decide", "audit", "erase", "admin"]


class Part(BaseModel):
    """What the parts of an event derive from, and events themselves."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Event(Part):
    """What every event derives from. `topic` is stored, signed, and `kind` in every view."""

    topic: ClassVar[str]
