"""The operations that read what was written."""

from abeyance import errors
from abeyance.http import answers, samples
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.schemas import (
    AuditQuery,
    JournalQuery,
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/v1/runs/{id}/journal",
        name="getRunJournal",
        summary="Read a run's journal",
        description=(
            "The run's events, oldest first: `sequence` counts from 1, `payload` is what was signed. The "
            "next page begins `after` this one's `nextCursor`."
        ),
        query=JournalQuery,
        answers=(
            Answer(
                status=200, says="A page of events.", model=answers.JournalPage, example=samples.JOURNAL_PAGE
            ),
        ),
        refusals=(errors.RunNotFoundError,),
    ),
    Operation(
        method="GET",
        path="/v1/audit/records",
        name="listAuditRecords",
        summary="Read the audit log",
        description=(
            "The sealed events of all runs in the journal's order. Where an event holds an answer, "
            "`answer` has its exact size and SHA-256 as long as it exists, and `erased` after. The next "
            "page begins `after` this one's `nextCursor`."
        ),
        query=AuditQuery,
        answers=(
            Answer(
                status=200, says="A page of records.", model=answers.AuditPage, example=samples.AUDIT_PAGE
            ),
        ),
    ),
)  # fmt: skip
