"""`abeyance runs resume`: what a run waits for, and the answer to it.

Exit codes: without `--output` as `sentences.exit_code`; with it 1 if the answer is refused or nothing waits
for one, 2 if several waits are open and none is named (nothing is sent), else as without `--output` after the
answer, and 1 if the run failed; with `--check` too 0 if the answer would be taken, and nothing is.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeyance.cli.options import Key, RunId, Url, connect, only

if TYPE_CHECKING:
    from abeyance.client import Run
    from abeyance.client.encoding import JsonText

REFUSED, USAGE = 1, 2


def resume(
    run: RunId,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JSON", help="The answer, the tool's output: JSON, @file, or @- for standard input."
        ),
    ] = None,
    waitpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Which wait: a `tokenId`. Needed if the run waits for several answers."
        ),
    ] = None,
    idempotency_key: Key = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the answer would be taken, and why not.")
    ] = False,
    url: Url = None,
) -> None:
    """Say what a run waits for; with --output, answer it.

    Exits with 0 if the run waits for nothing, 3 if it waits for an approval, 5 for an answer or a signal, 4
    for something else.
    """
    from abeyance.cli.documents import read_document

    wait, given = only("--waitpoint", waitpoint), only("--output", output)
    if wait is not None and not wait.strip():
        raise typer.BadParameter("it is empty; name a tokenId", param_hint="--waitpoint")
    if given is None:
        for option, named in (("--waitpoint", wait is not None), ("--check", check)):
            if named:
                raise typer.BadParameter("it needs --output, the answer", param_hint=option)
        _describe(run, url)
    elif check:
        _check(run, wait, read_document("--output", given), url)
    else:
        _answer(run, wait, read_document("--output", given), idempotency_key, url)


def _describe(run_id: str, url: str | None) -> None:
    from abeyance.cli.output import say
    from abeyance.cli.sentences import exit_code, sentences, state

    with connect(url) as client:
        run = client.runs.get(run_id)
    for sentence in sentences(run) or [state(run)]:
        say(sentence)
    raise typer.Exit(exit_code(run))


def _answer(
    run_id: str, wait: str | None, answer: "JsonText", idempotency_key: str | None, url: str | None
) -> None:
    from abeyance.cli.following import show
    from abeyance.cli.sentences import exit_code

    with connect(url) as client:
        if wait is None:
            wait = _only_wait(client.runs.get(run_id))
        run = client.runs.resume(run_id, waitpoint_id=wait, value=answer, idempotency_key=idempotency_key)
    show(run)
    raise typer.Exit(REFUSED if run.status == "failed" else exit_code(run))


def _check(run_id: str, wait: str | None, answer: "JsonText", url: str | None) -> None:
    from abeyance.cli.output import say

    with connect(url) as client:
        if wait is None:
            wait = _only_wait(client.runs.get(run_id))
        client.runs.resume(run_id, waitpoint_id=wait, value=answer, check=True)
    say(f"The answer would be taken. Nothing was sent to run {run_id}.")


def _only_wait(run: "Run") -> str:
    """The one wait that an answer without a name is for. Exits, nothing sent, if there is none or several."""
    from abeyance.cli.output import complain, say
    from abeyance.cli.sentences import sentences, state

    tokens = run.waiting_for.tokens if run.waiting_for else ()
    if len(tokens) == 1:
        return tokens[0].token_id
    if tokens:
        complain("usage", f"the run waits for {len(tokens)} answers; nothing was sent. Name a --waitpoint:")
    elif run.ended:
        complain("run-already-terminal", "the run has ended and takes no answer; nothing was sent")
    else:
        complain("run-resume-not-supported", "the run waits for no other system's answer; nothing was sent")
    for sentence in sentences(run) or [state(run)]:
        say(sentence)
    raise typer.Exit(USAGE if tokens else REFUSED)
