"""`abeyance audit export | verifier`: files for an auditor."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from abeyance.cli.options import Url, connect


def export(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write; it is never replaced.")],
    everything: Annotated[bool, typer.Option("--all", help="The whole log.")] = False,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only records of this run.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only records from this time on (RFC 3339).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only records before this time (RFC 3339).")
    ] = None,
    url: Url = None,
) -> None:
    """Write signed records to FILE, for `abeyance audit verify FILE`. The export itself is recorded.

    Only `--all` lets an auditor prove that nothing is missing; a part proves what is in it.
    """
    from abeyance.bootstrap.progress import shown_count
    from abeyance.client.errors import UnexpectedReply

    if everything == bool(run or since or until):
        raise typer.BadParameter("say what to export: --all, or --run, --from, --to")
    _check_new(out)
    draft, lines, newest = out.with_name(f"{out.name}.part"), 0, b""
    with connect(url) as client, draft.open("wb") as file, shown_count("exporting lines") as progress:
        for piece in client.audit.export(everything=everything, run_id=run, since=since, until=until):
            file.write(piece)
            lines += piece.count(b"\n")
            newest = (newest + piece)[-4_096:]
            progress(lines)
    if b'{"end":' not in newest:
        raise UnexpectedReply(f"the export was cut off; what came is in {draft}")
    draft.rename(out)
    print(
        f"{lines} lines in {out}. Verify them: abeyance audit verify {out} --root-key root.pub",
        file=sys.stderr,
    )
    print(
        "root.pub is in the folder of the deployment's keys (`abeyance dev`: .abeyance/keys).",
        file=sys.stderr,
    )


def verifier(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write; it is never replaced. [default: abeyance-verify.py, or verify.html]",
        ),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="A page instead, which verifies in a browser, offline.")
    ] = False,
) -> None:
    """Write the verifier as one file that needs only Python and `cryptography`: for an auditor's machine."""
    from abeyance import __version__
    from abeyance.verifier.assembling import assemble, read_page

    target = out or Path("verify.html" if html else "abeyance-verify.py")
    _check_new(target)
    target.write_text(read_page() if html else assemble(__version__), "utf-8")
    print(
        f"{target}: give it to the auditor, with root.pub from the folder of the deployment's keys.",
        file=sys.stderr,
    )


def _check_new(out: Path) -> None:
    if out.exists():
        raise typer.BadParameter(f"{out} is there already")
