"""What a person is told: about a value that breaks a rule, and about a wait that takes no answer."""

from collections.abc import Mapping
from typing import Final

from abeyance.console.fields import Field, Json, Lines, Number, Text

CLOSED: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("This has been answered", "Thank you. Nothing more is needed."),
    "answered": ("This has been answered", "Thank you. Nothing more is needed."),
    "timed-out": ("The time to answer has passed", "No answer can be taken any more."),
    "cancelled": ("This is no longer asked for", "It was withdrawn. No answer can be taken any more."),
    "unused": ("This is no longer asked for", "It went on without an answer. None can be taken any more."),
}
"""What a closed wait's page says, by the wait's state: a title and a line."""

ANSWERED_BEFORE: Final = (
    "This has been answered before",
    "The answer that came first counts. Yours was not taken.",
)
TAKEN: Final = ("Your answer was taken", "Thank you. You can close this page.")
NOT_FOUND: Final = (
    "There is nothing at this address",
    "Check that it is complete: an e-mail program may have cut it. It may also be that it no longer holds.",
)
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "rate-limit-exceeded": (
        "Too many requests came from where you are",
        "Nothing was taken. Wait a minute, then reload this page: your browser sends again what you sent.",
    ),
    "tenant-state-unavailable": (
        "This can't be answered at the moment",
        "Nothing was taken. Wait a minute, then reload this page: your browser sends again what you sent.",
    ),
    "request-too-large": ("Your answer is too large", "Nothing was taken. Go back and shorten it."),
    "unsupported-media-type": (
        "This wasn't sent by a form",
        "Nothing was taken. Open the page and send its form.",
    ),
    "bad-input": ("What was sent can't be read", "Nothing was taken. Open the page again and send its form."),
}
"""What is said where the form can't be shown again, by the error's code."""

STOPPED: Final = ("This can't be answered", "Whoever asked has stopped this work. Nothing was taken.")

_FORMATS: Final[Mapping[str, str]] = {
    "date": "Write a date, such as 2026-10-25.",
    "date-time": "Give the date, the time and the time zone.",
    "time": "Write a time with its offset, such as 09:30:00Z.",
    "duration": "Write a duration, such as P3DT4H for 3 days and 4 hours.",
    "email": "Write an e-mail address, such as name@example.org.",
    "uri": "Write a whole address, such as https://example.org/page.",
    "uuid": "Write a UUID, such as 6f1c2a9e-0b7d-4a51-9c3e-2d8f6a1b4e07.",
}
HINTS: Final[Mapping[str, str]] = {
    "time": "For example 09:30:00Z.",
    "duration": "For example P3DT4H for 3 days and 4 hours.",
    "email": "For example name@example.org.",
    "uri": "For example https://example.org/page.",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "minimum": "Write {} or more.",
    "maximum": "Write {} or less.",
    "exclusiveMinimum": "Write more than {}.",
    "exclusiveMaximum": "Write less than {}.",
    "multipleOf": "Write a multiple of {}.",
    "minLength": "Write at least {} characters.",
    "maxLength": "Write at most {} characters.",
    "minItems": "Write at least {} lines.",
    "maxItems": "Write at most {} lines.",
}
_RULES: Final[Mapping[str, str]] = {
    "required": "Fill this in.",
    "choose": "Choose one.",
    "enum": "Choose one of those that are offered.",
    "const": "Choose one of those that are offered.",
    "zone": "Choose the time zone.",
    "pattern": "This isn't written as it is asked for.",
    "uniqueItems": "Two lines are the same.",
    "not-json": "This isn't JSON.",
    "too-deep": "This JSON nests too deep.",
    "too-many-values": "This JSON has too many values.",
    "duplicate-key": "An object has the same name twice.",
    "not-finite": "A number is too large.",
    "too-many-digits": "A number has too many digits.",
}
_OTHERWISE: Final = "This isn't accepted."


def says(field: Field, rule: str) -> str:
    """What to tell of a field that breaks `rule`, a keyword of JSON Schema or a problem of `filling`."""
    shown: Field = field.item if isinstance(field, Lines) and rule not in field.schema else field
    if rule in _BOUNDS and isinstance(shown.schema.get(rule), int | float):
        return _BOUNDS[rule].format(shown.schema[rule])
    if rule == "format" and isinstance(shown, Text):
        return _FORMATS.get(shown.format, f"Write a text in the format {shown.format}.")
    if rule == "type" and isinstance(shown, Number):
        example = "12" if shown.whole else "12.5"
        return f"Write a {'whole ' if shown.whole else ''}number, such as {example}."
    if rule == "required" and isinstance(field, Json) and not field.path:
        return "Write the answer as JSON."
    return _RULES.get(rule, _OTHERWISE)
