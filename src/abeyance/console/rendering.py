"""From templates to responses: HTML that runs nothing, loads nothing and can't be framed.

The style is in the page, and the Content-Security-Policy names it by its digest; the form may be sent to this
server alone. What a definition's author or a person wrote gets in by autoescape only.
"""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from falcon.asgi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from abeyance.console.errors import Wrong
from abeyance.console.fields import Field, Json
from abeyance.console.filling import ZONES
from abeyance.console.view import FormView
from abeyance.engine.questions import Question
from abeyance.http.render import format_time

_CSS: Final = (files("abeyance.console") / "templates" / "page.css").read_text("utf-8")
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; "
        f"style-src 'sha256-{base64.b64encode(sha256(_CSS.encode()).digest()).decode()}'; "
        "img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()
)
_ANSWER: Final = "An answer is asked for"


def write(resp: Response, status: int, page: str) -> None:
    """Answer with a page."""
    resp.status = status
    resp.content_type = "text/html; charset=utf-8"
    resp.text = None
    resp.data = page.encode("utf-8", "replace")
    for name, value in _HEADERS.items():
        resp.set_header(name, value)


def notice(title: str, *lines: str, name: str | None = None) -> str:
    """A page that only says something."""
    return _template("notice.html").render(css=Markup(_CSS), title=title, lines=lines, name=name)


def form_page(
    question: Question,
    form: Field,
    given: Mapping[str, str],
    rules: Mapping[str, Wrong],
    *,
    summary: str = "",
    has_form: bool = True,
) -> str:
    """The page with the form, filled with what was typed. `summary` says that something is wrong."""
    view = FormView(form, given, rules)
    as_json = isinstance(form, Json)
    return _template("answer.html").render(
        css=Markup(_CSS),
        page=view,
        form=form,
        zones=ZONES,
        name=question.name,
        title=_capital(question.name) if question.name else _ANSWER,
        lead=form.hint,
        until=None if question.times_out_at is None else _until(question.times_out_at),
        summary=summary,
        errors=list(view.errors()) if summary else [],
        as_json=as_json,
        has_form=has_form,
        schema=json.dumps(question.schema, indent=2, ensure_ascii=False) if as_json else "",
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("abeyance.console"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )


def _template(name: str) -> Template:
    return _environment().get_template(name)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _until(moment: datetime) -> dict[str, str]:
    text = f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M} UTC"
    return {"machine": format_time(moment), "text": text}
