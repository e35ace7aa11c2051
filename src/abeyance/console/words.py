"""Names and descriptions of a schema, as a person reads them."""

import re
from typing import Final

from abeyance.console.fields import Schema
from abeyance.journal.canonical import encode


def described(schema: Schema) -> str:
    """The schema's description in one line."""
    return " ".join(str(schema.get("description", "")).split())


def title_of(schema: Schema) -> str:
    """A model's title in words: its class's name is taken apart, a title of the author's own stays."""
    title = str(schema.get("title", ""))
    return in_words(title) if title.isidentifier() else title


def label_of(name: str, schema: Schema) -> str:
    """A member's title if its author gave one, else its name in words."""
    title = str(schema.get("title", ""))
    return title if title and _bare(title) != _bare(name) else in_words(name)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", text).lower()


_ABBREVIATIONS: Final = {"id": "ID", "url": "URL", "uri": "URI", "iban": "IBAN", "vat": "VAT"}


def in_words(name: str) -> str:
    """`pickupAt` and `pickup_at` as `Pickup at`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = [word if word.isupper() else word.lower() for word in re.split(r"[\s_\-]+", spaced) if word]
    text = " ".join(_ABBREVIATIONS.get(word, word) for word in words) or name
    return text[:1].upper() + text[1:]


def json_of(value: object) -> str:
    """A value of the schema as JSON."""
    return encode(value).decode()


def shown(value: object) -> str:
    """A value of the schema as the name of a choice."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return value if isinstance(value, str) else json_of(value)
