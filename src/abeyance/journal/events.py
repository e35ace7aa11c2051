"""The events of a run, a workspace and the deployment: what is signed, for ever.

Each class is one topic of docs/reference/events.md; its fields are the `data` of the signed body, declared in
alphabetical order, so that pydantic's own serializer writes canonical JSON (a test holds this). `data` holds
ids, integers, enums, hex digests, times, and these texts of users, which stay for ever and so must hold no
personal data: wait names, labels, ids of definitions, steps and workspaces, lines as `module:number`.
Everything a person could have said is content: the event holds a `ContentRef`, the vault the bytes.

Names are stored for ever: a new shape of an event is a new body version with an upcast, never an edit here.
"""

from typing import Literal
from uuid import UUID

from abeyance.journal.event_parts import DEPLOYMENT_STREAM as DEPLOYMENT_STREAM
from abeyance.journal.event_parts import ArgsDigest as ArgsDigest
from abeyance.journal.event_parts import Count as Count
from abeyance.journal.event_parts import Digest as Digest
from abeyance.journal.event_parts import Event as Event
from abeyance.journal.event_parts import Grant as Grant
from abeyance.journal.event_parts import Moment as Moment
from abeyance.journal.event_parts import Ordinal as Ordinal
from abeyance.journal.event_parts import Part
from abeyance.journal.event_parts import Text as Text
from abeyance.journal.event_parts import format_moment as format_moment
from abeyance.journal.event_parts import parse_moment as parse_moment
from abeyance.journal.tenant_events import TENANT_EVENTS
from abeyance.journal.tenant_events import WorkspaceCreated as WorkspaceCreated


class ContentRef(Part):
    """The commitment to a content. `sha256` is `SHA-256(salt[32] ‖ u64be(size) ‖ SHA-256(canonical))`; `size`
    is the canonical size in bytes rounded up to 256.
    """

    scheme: Literal["s1"] = "s1"
    sha256: Digest
    size: Count


class DefinitionRef(Part):
    """The definition that a run was started from. `digest` is SHA-256 of its document."""

    digest: Digest
    id: Text
    kind: Literal["flow", "script", "agent"]
    version: Text


class ToolRef(Part):
    """The tool of a call. `schema_digest` is SHA-256 of its output schema's document."""

    id: Text
    schema_digest: Digest
    version: Text


class Started(Event):
    """A run begins. `person` is a tag made with the run's key; `key_id` names that key."""

    topic = "started"
    actor: Text | None = None
    definition: DefinitionRef
    expires_at: Moment
    input: ContentRef
    key_id: Count
    labels: dict[str, str] | None = None
    parent: UUID | None = None
    person: ArgsDigest | None = None
    project: Text
    trigger: Literal["api", "script", "flow", "agent", "fork"] = "api"
    workspace: Text


class CallStarted(Event):
    """On disk before the tool's handler runs. `key` is the call's idempotency key; a tool that can pause has
    `wait`, its token's id, and `link`, the SHA-256 of the link's token.
    """

    topic = "call-started"
    args: ArgsDigest
    attempt: Ordinal
    input: ContentRef
    key: UUID
    link: Digest | None = None
    node: Text
    op: Text
    tool: ToolRef
    wait: Text | None = None


class Rerun(Event):
    """The call of a lost worker is run again. `ordinal` is 2 to 5; a drain counts nothing, so it repeats."""

    topic = "rerun"
    cause: Literal["worker-lost", "drained"]
    link: Digest | None = None
    op: Text
    ordinal: Ordinal


class CallPaused(Event):
    """The handler returned `pause`: the run has reached the wait, which `times_out_at` ends."""

    topic = "call-paused"
    line: Text
    name: Text | None = None
    op: Text
    times_out_at: Moment
    wait: Text


class CallCompleted(Event):
    """The handler returned `output` itself."""

    topic = "call-completed"
    op: Text
    output: ContentRef


class CallFailed(Event):
    """`final` is false when a retry of the same operation follows."""

    topic = "call-failed"
    attempt: Ordinal
    code: Text
    detail: ContentRef | None = None
    final: bool
    op: Text


class RetryScheduled(Event):
    """The call is tried again from `due_at` on; `attempt` is the coming one."""

    topic = "retry-scheduled"
    attempt: Ordinal
    due_at: Moment
    op: Text


class Suspended(Event):
    """Nothing but waits is left. `open_waits` is SHA-256 of the sorted ids of what is open, one a line."""

    topic = "suspended"
    approvals: Count
    open_waits: Digest
    other: Count
    signals: Count
    tokens: Count


class RaceDecided(Event):
    """Branch `winner` (from 1) of race or gather `op` ended it. `closed` waits of other branches are
    cancelled."""

    topic = "race-decided"
    closed: Count
    op: Text
    winner: Ordinal


class WaitTokenAnswered(Event):
    """An answer is held before the run reached its wait."""

    topic = "wait-token-answered"
    answer: ContentRef
    by: Text
    wait: Text


class WaitTokenCompleted(Event):
    """The run takes an answer: it is the call's result. `held`: the one that `wait-token-answered` holds."""

    topic = "wait-token-completed"
    answer: ContentRef
    by: Text
    held: bool | None = None
    wait: Text


class WaitTokenDiscarded(Event):
    """A held answer is dropped. Only ever after `wait-token-answered`."""

    topic = "wait-token-discarded"
    answer: ContentRef
    reason: Literal[
        "answered-at-once",
        "step-retried",
        "run-ended",
        "run-cancelled",
        "reruns-exhausted",
        "branch-cancelled",
        "call-failed",
        "erased",
    ]
    wait: Text


class WaitTokenTimedOut(Event):
    """No answer came in time; the call's failure follows in the same batch."""

    topic = "wait-token-timed-out"
    wait: Text


class WaitTokenExtended(Event):
    """Somebody moved the deadline of a wait that the run has reached; the new one may be earlier."""

    topic = "wait-token-extended"
    actor: Text | None = None
    times_out_at: Moment
    wait: Text


class LinkRotated(Event):
    """Somebody asked for a new link to a wait. `link` is its token's SHA-256; all older links are dead."""

    topic = "link-rotated"
    actor: Text | None = None
    link: Digest
    wait: Text


class LinkRevoked(Event):
    """Somebody killed all links of a wait, which stays open."""

    topic = "link-revoked"
    actor: Text | None = None
    wait: Text


class StepCompleted(Event):
    """A script's own function returned `output`."""

    topic = "step-completed"
    args: ArgsDigest
    name: Text
    op: Text
    output: ContentRef


class StepFailed(Event):
    """A script's own function raised; the script sees it as a failed call."""

    topic = "step-failed"
    args: ArgsDigest
    detail: ContentRef | None = None
    name: Text
    op: Text


class ValueRecorded(Event):
    """A clock reading, id or random number that a script asked for. `value` is a time, a UUID, or 16 hex
    digits of which the first 53 bits make the float.
    """

    topic = "value-recorded"
    kind: Literal["now", "uuid", "random"]
    op: Text
    value: Text


class TimerSet(Event):
    """A script sleeps until `due_at`."""

    topic = "timer-set"
    args: ArgsDigest
    due_at: Moment
    op: Text


class TimerFired(Event):
    """The sleep is over."""

    topic = "timer-fired"
    op: Text


class CodeMismatch(Event):
    """The loaded code asks for another operation than the journal holds: the run is parked. `code` is the
    digest of the definition that was tried.
    """

    topic = "code-mismatch"
    code: Digest
    line: Text | None = None
    op: Text
    recorded: Text
    requested: Text


class CodeMatched(Event):
    """Code that fits the journal is loaded again: the run goes on."""

    topic = "code-matched"
    code: Digest


class CrashLoop(Event):
    """Workers died one after the other with nothing appended: the run is parked, and no code of it runs.
    `lost` is how many died, `code` the digest of the definition.
    """

    topic = "crash-loop"
    code: Digest
    lost: Count


class CrashLoopRetried(Event):
    """Somebody wants the run to be tried again."""

    topic = "crash-loop-retried"
    actor: Text | None = None


class Completed(Event):
    """The end: the program returned `output`."""

    topic = "completed"
    output: ContentRef


class Failed(Event):
    """The end: `code` is stable, `detail` the message, `node` the flow step it came from."""

    topic = "failed"
    code: Text
    detail: ContentRef | None = None
    node: Text | None = None


class Cancelled(Event):
    """The end: somebody cancelled the run."""

    topic = "cancelled"
    actor: Text | None = None


class LogOpened(Event):
    """The first event of a deployment, signed by the root key."""

    topic = "log-opened"
    origin: Text
    root: Text


class KeyAdded(Event):
    """The root key certifies a key. `key` is its raw public key in base64."""

    topic = "key-added"
    alg: Literal["Ed25519"] = "Ed25519"
    key: Text
    kid: Text
    use: Literal["events", "log"]


class KeyRetired(Event):
    """The root key ends a key: it signs nothing after this. What it signed before stays good."""

    topic = "key-retired"
    kid: Text


class KeyRevoked(Event):
    """The root key ends a key that somebody else may have had since `since`."""

    topic = "key-revoked"
    kid: Text
    since: Moment


BY_ROOT = (LogOpened, KeyAdded, KeyRetired, KeyRevoked)
"""The events that only the root key signs."""


class Exported(Event):
    """Somebody exported records of the log up to `size`: all, those of a run, or those of a time (`since`
    inclusive, `until` exclusive).
    """

    topic = "exported"
    actor: Text | None = None
    run: Text | None = None
    since: Moment | None = None
    size: Count
    until: Moment | None = None


class DefinitionRecorded(Event):
    """A workspace has loaded a definition for the first time; its document is stored by digest."""

    topic = "definition-recorded"
    definition: DefinitionRef


class ApiKeyCreated(Event):
    """An API key was made. `key` is its public id; neither the key's text, nor a digest of it, nor its name
    is in any event. Without `project` it is for the whole workspace, without `executes` for all definitions.
    """

    topic = "api-key-created"
    actor: Text | None = None
    executes: list[Text] | None = None
    expires_at: Moment | None = None
    grants: list[Grant]
    key: Text
    project: Text | None = None


class ApiKeyRevoked(Event):
    """An API key was revoked: it opens nothing from here on."""

    topic = "api-key-revoked"
    actor: Text | None = None
    key: Text


TERMINAL = (Completed, Failed, Cancelled)

_ALL: tuple[type[Event], ...] = (
    Started, CallStarted, Rerun, CallPaused, CallCompleted, CallFailed, RetryScheduled, Suspended,
    RaceDecided, WaitTokenAnswered, WaitTokenCompleted, WaitTokenDiscarded, WaitTokenTimedOut,
    WaitTokenExtended, LinkRotated, LinkRevoked,
    StepCompleted, StepFailed, ValueRecorded, TimerSet, TimerFired, CodeMismatch, CodeMatched,
    CrashLoop, CrashLoopRetried,
    Completed, Failed, Cancelled, LogOpened, KeyAdded, KeyRetired, KeyRevoked, Exported, DefinitionRecorded,
    *TENANT_EVENTS, ApiKeyCreated, ApiKeyRevoked,
)  # fmt: skip
EVENT_TYPES: dict[str, type[Event]] = {kind.topic: kind for kind in _ALL}


def content_ref(event: Event) -> ContentRef | None:
    """The commitment that an event brings to its stream: whose content lies in the vault at its version.

    `wait-token-completed` of a held answer and `wait-token-discarded` repeat the commitment of the
    `wait-token-answered` before them and bring none.
    """
    match event:
        case Started() | CallStarted():
            return event.input
        case CallCompleted() | StepCompleted() | Completed():
            return event.output
        case WaitTokenAnswered():
            return event.answer
        case WaitTokenCompleted():
            return None if event.held else event.answer
        case CallFailed() | StepFailed() | Failed():
            return event.detail
        case _:
            return None
