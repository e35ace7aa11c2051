"""The operations on the log: its checkpoint and tiles, a record's proof, exports."""

from abeyance import errors
from abeyance.http.log_schemas import ExportBody
from abeyance.http.operations.model import Answer, Operation

_NOTE = (
    b"abeyance.example/prod-eu\n6\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n\n"
    b"\xe2\x80\x94 abeyance.example/prod-eu LTkfm/1PuxydJ8POkB1/s2CJxX9Ro+u00VtE8qJ/Baa61LiDapZQkfHVIFPPMJ"
    b"IrSOr7nlUANOaS73EgPEqtxqPDnw8=\n"
)
_PROOF = (
    b"c2sp.org/tlog-proof@v1\nindex 3\nT4ThQGBQhTiyl4FyTmc5cvO2yBhwMi1VBy+D/BnDEUc=\n"
    b"D18yc9nvjrlclK7o4v9gU7qNWGz5fpYE1+9QdS4WAV4=\nYlrMpijgmZwkewS17yUN5dy1B5HfrGC9W7zEbQQU9eU=\n\n"
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/v1/audit/log/checkpoint",
        name="getLogCheckpoint",
        summary="Get the log's newest checkpoint",
        description="A signed note (C2SP signed-note, tlog-checkpoint): origin, size, root hash, signature.",
        answers=(Answer(status=200, says="The checkpoint.", model=None, example=_NOTE),),
        refusals=(errors.NotFoundError,),
    ),
    Operation(
        method="GET",
        path="/v1/audit/log/tile/{path}",
        name="getLogTile",
        summary="Get a tile of the log",
        description=(
            "Hashes of the Merkle tree, `<level>/<number>[.p/<width>]`, or records, "
            "`entries/<number>[.p/<width>]`, as C2SP tlog-tiles v0.1.0 names and cuts them."
        ),
        answers=(
            Answer(
                status=200,
                says="The tile's bytes.",
                model=None,
                media="application/octet-stream",
                example=b"(32 bytes a hash)",
            ),
        ),
        refusals=(errors.NotFoundError,),
    ),
    Operation(
        method="GET",
        path="/v1/audit/records/{record}/proof",
        name="getRecordProof",
        summary="Get the proof that a record is in the log",
        description="By the record's index or its hash; a C2SP tlog-proof, which ends with the checkpoint.",
        answers=(Answer(status=200, says="The proof.", model=None, example=_PROOF + _NOTE),),
        refusals=(errors.NotFoundError,),
    ),
    Operation(
        method="POST",
        path="/v1/audit/exports",
        name="exportRecords",
        summary="Export records",
        description=(
            "A bundle of signed records up to the newest checkpoint, one JSON object a line, which "
            "`abeyance audit verify` checks without the deployment. The export is recorded in the log first."
        ),
        body=ExportBody,
        body_example={"all": True},
        answers=(
            Answer(
                status=200,
                says="The bundle.",
                model=None,
                media="application/jsonl",
                example=b'{"abeyance-bundle":1,"from":0}\n',
            ),
        ),
        refusals=(errors.RunNotFoundError, errors.UnknownFieldError),
    ),
)
