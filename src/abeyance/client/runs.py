"""`client.runs`: start, get, list, resume, cancel, journal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, overload
from urllib.parse import quote
from uuid import UUID

from abeyance.client import results
from abeyance.client.encoding import JsonText, encode, encode_members
from abeyance.client.results import JournalPage, Run, RunPage

if TYPE_CHECKING:
    from abeyance.client.transport import Transport


class _LeftOut:
    def __repr__(self) -> str:
        return "left out"


LEFT_OUT: Final = _LeftOut()


class Runs:
    """Runs of one server. Refusals are raised as `ApiError`.

    What changes something takes an `idempotency_key`: sent again with the same one within 24 hours, by this
    process or another, it counts once, and the reply is the first one's. Without one each call has a key of
    its own, under which it is sent again if its connection breaks before the reply.
    """

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def start(
        self,
        *,
        flow: str | None = None,
        script: str | None = None,
        input: object = LEFT_OUT,  # noqa: A002 - the API's own word
        wait: bool = True,
        ttl_ms: int | None = None,
        participant: str | None = None,
        project: str | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Start a run of a flow or a script (`id` or `id@version`).

        Returns when it ends or suspends, at most after 30 s; with `wait=False` at once. `ttl_ms` bounds all
        its waits, in milliseconds. Left out, `input` is `{}`. Signed records keep `labels`: no personal data.

        This release's server refuses a `participant`.
        """
        if (flow is None) == (script is None):
            raise TypeError("name exactly one: flow or script")
        body = encode_members(
            {
                "flow": flow,
                "script": script,
                "input": _content(input),
                "wait": wait,
                "ttlMs": ttl_ms,
                "participant": participant,
                "project": project,
                "labels": dict(labels) if labels else None,
            }
        )
        return results.parse_run(*self._transport.post("/v1/runs", body, idempotency_key=idempotency_key))

    def get(self, run_id: str | UUID) -> Run:
        """The run now."""
        return results.parse_run(*self._transport.get(_path(run_id), {}))

    def list(
        self,
        *,
        status: str | None = None,
        definition: str | None = None,
        label: tuple[str, str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RunPage:
        """A page of runs, newest first: all filters must hold. `label` is a name and its value."""
        query = {
            "status": status,
            "definition": definition,
            "label": "=".join(label) if label else None,
            "limit": limit,
            "cursor": cursor,
        }
        return results.parse_runs(*self._transport.get("/v1/runs", query))

    @overload
    def resume(
        self,
        run_id: str | UUID,
        *,
        waitpoint_id: str,
        value: object = LEFT_OUT,
        idempotency_key: str | None = None,
        check: Literal[False] = False,
    ) -> Run: ...

    @overload
    def resume(
        self, run_id: str | UUID, *, waitpoint_id: str, value: object = LEFT_OUT, check: Literal[True]
    ) -> None: ...

    def resume(
        self,
        run_id: str | UUID,
        *,
        waitpoint_id: str,
        value: object = LEFT_OUT,
        idempotency_key: str | None = None,
        check: bool = False,
    ) -> Run | None:
        """Answer a wait (its `token_id`) as the link would; the run after it, at most 30 s later.

        Left out, `value` is `{}`; `None` is `null`, which is an answer too. With `check=True` nothing is
        taken: it returns `None` if the answer would be, and raises what it would be refused with.
        """
        body = encode_members({"waitpointId": waitpoint_id, "value": _content(value)})
        path = f"{_path(run_id)}/resume"
        if check:
            results.parse_acceptable(self._transport.post(f"{path}?check=true", body)[0])
            return None
        return results.parse_run(*self._transport.post(path, body, idempotency_key=idempotency_key))

    def cancel(self, run_id: str | UUID, *, idempotency_key: str | None = None) -> Run:
        """Cancel the run and everything it waits for."""
        path = f"{_path(run_id)}/cancel"
        return results.parse_run(*self._transport.post(path, None, idempotency_key=idempotency_key))

    def retry(self, run_id: str | UUID, *, idempotency_key: str | None = None) -> Run:
        """Let a parked run (`crash-loop`, `code-mismatch`, `history-damaged`) be gone on with."""
        path = f"{_path(run_id)}/retry"
        return results.parse_run(*self._transport.post(path, None, idempotency_key=idempotency_key))

    def journal(
        self, run_id: str | UUID, *, after: int = 0, limit: int | None = None, content: bool = False
    ) -> JournalPage:
        """The run's events after sequence `after`; with `content` what was said, as long as it exists."""
        query = {"after": after or None, "limit": limit, "content": content or None}
        return results.parse_journal(*self._transport.get(f"{_path(run_id)}/journal", query))


def _path(run_id: str | UUID) -> str:
    return f"/v1/runs/{quote(str(run_id), safe='')}"


def _content(value: object) -> JsonText | None:
    return None if isinstance(value, _LeftOut) else JsonText(encode(value).decode())
