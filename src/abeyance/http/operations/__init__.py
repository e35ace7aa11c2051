"""Every operation of the API, as the reference describes it: one entry a route and method.

`tests/api/test_openapi.py` holds this list, the routes of `abeyance.http.app` and the table of
`abeyance.http.errors` together.
"""

from abeyance.http.operations import keys, links, log, process, records, runs, tenants, waits
from abeyance.http.operations.model import Answer as Answer
from abeyance.http.operations.model import Operation as Operation

OPERATIONS: tuple[Operation, ...] = (
    *links.OPERATIONS,
    *runs.OPERATIONS,
    *waits.OPERATIONS,
    *records.OPERATIONS,
    *log.OPERATIONS,
    *keys.OPERATIONS,
    *tenants.OPERATIONS,
    *process.OPERATIONS,
)
