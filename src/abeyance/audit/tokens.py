"""What may become of a wait token, judged from signed events alone (docs/explanation/life-of-an-answer.md).

A token is issued by `call-started`. It takes one answer at most; an answer that is held is taken or
discarded, never both and never neither; nothing is discarded that wasn't held; after its end nothing more
happens to it.
"""

from dataclasses import dataclass
from typing import assert_never

from abeyance.journal import events as e
from abeyance.journal.run import losing_branches

_TokenEvent = e.WaitTokenAnswered | e.WaitTokenCompleted | e.WaitTokenDiscarded | e.WaitTokenTimedOut


@dataclass(slots=True)
class _Token:
    op: str
    reached: bool = False
    held: e.ContentRef | None = None


class TokenRules:
    """Follows the wait tokens of one run, event by event."""

    def __init__(self) -> None:
        self._open: dict[str, _Token] = {}
        self._closed: set[str] = set()

    def take(self, event: e.Event) -> str | None:
        """What is wrong with this event after those before it; `None` if nothing is."""
        match event:
            case e.CallStarted(wait=str() as wait):
                return self._issue(wait, event.op)
            case e.CallCompleted() | e.CallFailed():
                return self._close_all({event.op})
            case e.RaceDecided():
                ops = [token.op for token in self._open.values()]
                return self._close_all(losing_branches(event.op, event.winner, ops))
            case e.Completed() | e.Failed() | e.Cancelled():
                return self._close_all({token.op for token in self._open.values()})
            case e.CallPaused():
                token = self._open.get(event.wait)
                return self._unknown(event.wait) if token is None else _pause(token)
            case e.WaitTokenExtended() | e.LinkRotated() | e.LinkRevoked():
                token = self._open.get(event.wait)
                return self._unknown(event.wait) if token is None else _change(token, event)
            case (
                e.WaitTokenAnswered()
                | e.WaitTokenCompleted()
                | e.WaitTokenDiscarded()
                | e.WaitTokenTimedOut()
            ):
                token = self._open.get(event.wait)
                return self._unknown(event.wait) if token is None else self._follow(token, event)
            case _:
                return None

    def _issue(self, wait: str, op: str) -> str | None:
        if wait in self._open or wait in self._closed:
            return "the wait token was issued before"
        self._open[wait] = _Token(op)
        return None

    def _unknown(self, wait: str) -> str:
        return "the wait token has ended before" if wait in self._closed else "no call has this wait token"

    def _close_all(self, ops: set[str]) -> str | None:
        """End the tokens of these operations; none of them may still hold an answer."""
        closing = {wait: token for wait, token in self._open.items() if token.op in ops}
        for wait in closing:
            self._close(wait)
        lost = any(token.held is not None for token in closing.values())
        return "an answer was held and is neither taken nor discarded" if lost else None

    def _close(self, wait: str) -> None:
        del self._open[wait]
        self._closed.add(wait)

    def _follow(self, token: _Token, event: _TokenEvent) -> str | None:
        if isinstance(event, e.WaitTokenAnswered):
            return _hold(token, event)
        self._close(event.wait)
        match event:
            case e.WaitTokenCompleted():
                return _complete(token, event)
            case e.WaitTokenDiscarded():
                return None if token.held == event.answer else "no such answer was held"
            case e.WaitTokenTimedOut():
                return None if token.reached else "the wait token timed out before the run reached it"
        assert_never(event)


def _change(token: _Token, event: e.WaitTokenExtended | e.LinkRotated | e.LinkRevoked) -> str | None:
    if token.held is not None:
        return "the wait token holds an answer: its links and its deadline stay as they are"
    if isinstance(event, e.WaitTokenExtended) and not token.reached:
        return "the deadline is moved of a wait token that the run hasn't reached"
    return None


def _pause(token: _Token) -> str | None:
    problem = "the run reached this wait token before" if token.reached else None
    token.reached = True
    return problem


def _hold(token: _Token, event: e.WaitTokenAnswered) -> str | None:
    problem = None
    if token.held is not None:
        problem = "the wait token holds an answer already"
    elif token.reached:
        problem = "an answer is held though the run waits for it"
    token.held = event.answer
    return problem


def _complete(token: _Token, event: e.WaitTokenCompleted) -> str | None:
    if not token.reached:
        return "an answer is taken before the run reached its wait token"
    if token.held is None:
        return "the answer that is taken was never held" if event.held else None
    if not event.held or token.held != event.answer:
        return "another answer is taken than the one that is held"
    return None
