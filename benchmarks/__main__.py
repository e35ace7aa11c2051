"""``python -m benchmarks [--json] [--cases=B1,B2] [--store=postgres] [--clients=1,16] [--runs=N]``.

Without arguments: all cases on both stores, B1 at 1 and at 16 clients. It starts and ends everything
itself.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks import stores
from benchmarks.cases import history, latency, throughput, twice, verifying, waiting
from benchmarks.driver import GET_AGAIN_S
from benchmarks.errors import BenchmarkError
from benchmarks.report import Result, print_tables
from benchmarks.speed import sign_us
from benchmarks.stores import MakeStore

CASES = ("B1", "B2", "B3", "B4", "B8", "TWO")
CLIENTS = (1, 16)


def main() -> int:
    """Measure and print. 0 unless something was wrong; slow is not wrong."""
    options = _options()
    say(_conditions())
    results = []
    try:
        for result in _measure(options):
            results.append(result)
            if options.json:
                print(result.line(), flush=True)
    except BenchmarkError as error:
        say(f"wrong: {error}")
        return 1
    finally:
        if results and not options.json:
            print_tables(results, Console())
    return 0


def say(text: str) -> None:
    """A sentence for people: on stderr, so that stdout has the results alone."""
    print(text, file=sys.stderr, flush=True)


def _measure(options: argparse.Namespace) -> Iterator[Result]:
    for store in options.store:
        with stores.open_maker(store) as make:
            for case in options.cases:
                say(f"{case} on {store} …")
                yield from _case(case, make, options)


def _case(case: str, make: MakeStore, options: argparse.Namespace) -> Iterator[Result]:
    if case == "B1":
        for clients in options.clients or CLIENTS:
            yield throughput.measure_throughput(make, clients, options.runs)
    elif case == "B2":
        for clients in options.clients or CLIENTS[:1]:
            yield latency.measure_latency(make, clients, options.runs)
    elif case == "B3":
        yield waiting.measure_waiting(make, options.runs)
    elif case == "B4":
        yield from history.measure_history(make)
    elif case == "B8":
        yield verifying.measure_verifying(make, options.runs)
    else:
        yield twice.measure_two_answers(make)


def _conditions() -> str:
    return (
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {sign_us():.0f} µs of CPU a signature, "
        f"Python {platform.python_version()}; temporary files on {_file_system(tempfile.gettempdir())}.\n"
        "ABEYANCE_LINK_RATE=0 (no limit of requests to links); every other setting is on its default.\n"
        f"Pauses: B2 rests each run {latency.PARKED_S * 1e3:.0f} ms before its answer; a run that hasn't "
        f"completed yet is asked for again after {GET_AGAIN_S * 1e3} ms; B3 looks at memory after "
        f"{waiting.IDLE_S:.0f} s of silence.\n"
        f"Warm-up: B1 {throughput.WARM_UP_RUNS} runs, B2 {latency.WARM_UP_RUNS}, B3 {waiting.WARM_UP_RUNS}."
    )


def _file_system(folder: str) -> str:
    """The type of the file system that a folder is on: the figures of `tmpfs` are no disk's."""
    best = ("", "an unknown file system")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if Path(folder).is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line a case instead of tables")
    parser.add_argument("--cases", type=_listed(CASES), default=CASES, help=f"of {','.join(CASES)}")
    parser.add_argument(
        "--store", type=_listed(stores.NAMES), default=stores.NAMES, help="sqlite or postgres"
    )
    parser.add_argument("--clients", type=_numbers, help="of B1 and B2, such as 1 or 1,16")
    parser.add_argument("--runs", type=int, help="runs of B1 and B8, samples of B2, waiting runs of B3")
    return parser.parse_args()


def _listed(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(known)}")
        return names

    return read


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
