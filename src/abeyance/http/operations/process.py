"""What every process answers about itself."""

from abeyance.http import answers
from abeyance.http.operations.model import Answer, Operation

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/health",
        name="getHealth",
        summary="Whether the process answers",
        description="Asks nothing of the store.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(status=200, says="It does.", model=answers.Health, example=b'{"status":"ok"}'),
        ),
    ),
    Operation(
        method="GET",
        path="/ready",
        name="getReadiness",
        summary="Whether requests should be sent here",
        description="Reads the store. `503` says what is wrong.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(status=200, says="They should.", model=answers.Readiness, example=b'{"status":"ready"}'),
            Answer(
                status=503,
                says="They should not; `Retry-After` says when to ask again.",
                model=answers.Readiness,
                example=b'{"status":"not-ready","problems":["the clock is 4 s off the store\'s"]}',
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="getMetrics",
        summary="The counters of this process",
        description="In the text format of Prometheus.",
        uses_store=False,
        answers=(
            Answer(
                status=200,
                says="Counters and gauges.",
                model=None,
                example=b"abeyance_http_waiting_requests 3\n",
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/v1/openapi.json",
        name="getOpenApi",
        summary="This API's description",
        description="OpenAPI 3.1.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(
                status=200, says="The document.", model=answers.Document, example=b'{"openapi":"3.1.0"}'
            ),
        ),
    ),
)  # fmt: skip
