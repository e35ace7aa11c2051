"""`GET` and `POST /w/{token}`: a link's page for a person.

The form is made from the schema of an answer, and what it sends goes the way of the link: the same gate, the
same checks in the same order (405, 429, 404, the workspace's 503 and 409, 415, 413, 400 for a form that can't
be read, then the wait's state, then the schema), the same limits, the same acceptance. `GET` and `HEAD` only
read, so whatever opens links to look at them changes nothing. A wrong link and an unknown one get one page.

The page shows what its author wrote for whoever answers, the wait's name and the output model's texts, and
until when. It shows nothing of the run: no input, no tool, no id.

The link itself is the credential, and no cookie is set or read: there is nothing that another site's page
could make a browser send along, so there is no request to forge and no token against it. Who knows the link
may answer, with a form or without.
"""

from dataclasses import dataclass
from typing import TypeAlias

from falcon.asgi import Request, Response

from abeyance import errors
from abeyance.console import messages
from abeyance.console.errors import Wrong, rules_of
from abeyance.console.fields import Field, Json
from abeyance.console.filling import Filled, fill, names_of
from abeyance.console.making import form_of, json_form_of
from abeyance.console.rendering import form_page, notice, write
from abeyance.engine.questions import Question
from abeyance.engine.service import OpenLink, RunService
from abeyance.http.body import MAX_BODY_BYTES, read_form, work_on
from abeyance.http.errors import MethodNotAllowedError, find_row
from abeyance.http.link_attempts import AttemptNotes, Watched
from abeyance.http.resources.links import LinkGate
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.journal.canonical import canonicalise

TEMPLATE = "/w/{token}"
ODD_LINKS = r"^/w/(?P<token>.*)$"
_AS_JSON = "as=json"
_METHODS = "GET, HEAD, POST"
_CODES_OF_TENANTS = ("tenant-", "project-")
_TRY_AGAIN = "Your answer wasn't taken: the server can't store it now. Send it again in a minute."
_WRONG = "Not taken yet. Please look at these again:"
_WRONG_AS_A_WHOLE = "Your answer wasn't taken: as a whole it isn't accepted"

Rules: TypeAlias = dict[str, Wrong]


@dataclass(slots=True)
class _Sheet:
    """One request's form: what is asked, the fields, and what was typed into them."""

    question: Question
    form: Field
    has_form: bool
    given: dict[str, str]

    def page(self, rules: Rules, summary: str = "") -> str:
        return form_page(self.question, self.form, self.given, rules, summary=summary, has_form=self.has_form)


class LinkPage:
    """The page of a link."""

    open_to_all = True

    def __init__(
        self, runs: RunService, waiting: WaitingRequests, gate: LinkGate, notes: AttemptNotes
    ) -> None:
        self._runs = runs
        self._waiting = waiting
        self._gate = gate
        self._notes = notes

    async def on_get(self, req: Request, resp: Response, token: str) -> None:
        """Show what is asked, or how it ended."""
        try:
            link = await self._open(req, token)
            sheet = await _sheet(req, link, {})
        except errors.AbeyanceError as error:
            _write_refusal(resp, error)
            return
        question = sheet.question
        if question.state in messages.CLOSED:
            write(resp, 200, notice(*messages.CLOSED[question.state], name=question.name))
        else:
            write(resp, 200, sheet.page({}))

    on_head = on_get

    async def on_post(self, req: Request, resp: Response, token: str) -> None:
        """Take what the form holds as the answer; what is refused comes back as it was typed."""
        try:
            link = await self._open(req, token)
            given = await link.read(read_form(req))
            sheet = await _sheet(req, link, given)
        except errors.AbeyanceError as error:
            _write_refusal(resp, error)
            return
        size = sum(map(len, given.values()))
        filled = await work_on(size, lambda typed: fill(sheet.form, typed), given)
        try:
            await self._take(link, filled)
        except errors.AnswerInvalidError as error:
            issues = error.issues
            rules = await work_on(size, lambda typed: rules_of(sheet.form, typed, issues), filled)
            whole = sheet.form.path in rules and not isinstance(sheet.form, Json) and len(rules) == 1
            write(resp, 400, sheet.page(rules, _WRONG_AS_A_WHOLE if whole else _WRONG))
        except errors.AbeyanceError as error:
            _write_refusal(resp, error, sheet)
        else:
            write(resp, 200, notice(*messages.TAKEN, name=sheet.question.name))

    async def answer_odd(self, req: Request, resp: Response | None, **fields: str) -> None:
        """Answer an address that the router doesn't match as any wrong link is answered."""
        if resp is None:  # a WebSocket
            raise errors.WaitTokenNotFoundError
        req.context.route = TEMPLATE
        if req.method not in _METHODS.split(", "):
            raise MethodNotAllowedError(_METHODS)
        await (self.on_post if req.method == "POST" else self.on_get)(req, resp, fields["token"])

    async def _open(self, req: Request, token: str) -> Watched:
        await self._gate.admit(req)
        if not token.isascii():
            raise errors.WaitTokenNotFoundError
        return self._notes.watch(req, await self._runs.open_link(token))

    async def _take(self, link: OpenLink, filled: Filled) -> None:
        """Put the answer to the link. One that a person hasn't filled in whole is only checked, so that what
        comes before the schema is said first.
        """
        text = filled.text.encode("utf-8", "surrogatepass")
        value = await work_on(len(text), canonicalise, text)
        if len(value) > MAX_BODY_BYTES:
            raise errors.RequestTooLargeError(MAX_BODY_BYTES)
        if not filled.problems:
            await self._waiting.finish(link.answer(value))
            return
        await link.check(value)
        raise errors.AnswerInvalidError(())


async def _sheet(req: Request, link: OpenLink, given: dict[str, str]) -> _Sheet:
    question = await link.ask()
    form = form_of(question.schema)
    has_form = not isinstance(form, Json)
    if not has_form or _AS_JSON in req.query_string.split("&"):
        form = json_form_of(question.schema)
    unknown = given.keys() - names_of(form)
    if unknown:
        raise errors.BadInputError("the form has a field that this answer doesn't have")
    return _Sheet(question, form, has_form, given)


def _write_refusal(resp: Response, error: errors.AbeyanceError, sheet: _Sheet | None = None) -> None:
    """A refusal as a page, with the status and the headers that it has everywhere."""
    row = find_row(type(error))
    if row is None:
        raise error
    for name, value in row.headers(error).items():
        resp.set_header(name, value)
    write(resp, row.status, _refusal(error, sheet))


def _refusal(error: errors.AbeyanceError, sheet: _Sheet | None) -> str:
    if isinstance(error, errors.WaitTokenNotFoundError):
        return notice(*messages.NOT_FOUND)
    if isinstance(error, errors.WaitTokenClosedError):
        name = sheet.question.name if sheet else None
        if error.state in ("completed", "answered"):
            return notice(*messages.ANSWERED_BEFORE, name=name)
        title, line = messages.CLOSED[error.state]
        return notice(title, f"{line} Yours was not.", name=name)
    if sheet is not None and isinstance(error, errors.StoreUnavailableError):
        return sheet.page({}, _TRY_AGAIN)
    if sheet is not None and isinstance(error, errors.BadInputError | errors.RequestTooLargeError):
        return sheet.page({}, f"Your answer wasn't taken: {error}")
    if error.code.startswith(_CODES_OF_TENANTS) and error.code not in messages.REFUSED:
        return notice(*messages.STOPPED)
    return notice(*messages.REFUSED[error.code])
