"""Long tests with new seeds until the time is up: ``python -m scripts.torture --minutes=10 --seed=1``.

Each round runs every property test (many examples), every slow test and every test marked ``torture``
under one seed: hypothesis, the tests' own ``seed`` fixture and Python's hash order all follow from it.
The first failure ends it, and the command that repeats the failing round is printed.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time

SELECTION = "(hypothesis or slow or torture) and not system"
HASH_SEEDS = 2**32
NOTHING_SELECTED = 5


def run_round(seed: int) -> int:
    """Run one round and return pytest's exit code."""
    environment = {
        **os.environ,
        "ABEYANCE_TEST_PROFILE": "torture",
        "ABEYANCE_TEST_SEED": str(seed),
        "PYTHONHASHSEED": str(seed % HASH_SEEDS),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", SELECTION, f"--hypothesis-seed={seed}"]
    return subprocess.run(command, env=environment, check=False).returncode


def torture(first_seed: int, minutes: float) -> int:
    """Run rounds until the time is up (the round that is running then still ends) or one fails."""
    started, rounds = time.monotonic(), 0
    while rounds == 0 or time.monotonic() - started < minutes * 60:
        seed = first_seed + rounds
        print(f"== round {rounds + 1}, seed {seed}", flush=True)
        code = run_round(seed)
        if code == NOTHING_SELECTED:
            print("there are no property, slow or torture tests yet")
            return 0
        if code:
            print(f"== failed; repeat it with: make torture SEED={seed} MINUTES=0", file=sys.stderr)
            return code
        rounds += 1
    took_s = time.monotonic() - started
    print(f"== {rounds} rounds passed in {took_s:.0f} s, seeds {first_seed} to {first_seed + rounds - 1}")
    return 0


def main() -> int:
    """Read the arguments and go."""
    parser = argparse.ArgumentParser(prog="python -m scripts.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="start no round after this time")
    parser.add_argument("--seed", type=int, help="the first round's seed (default: a random one)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(10**9)
    return torture(seed, arguments.minutes)


if __name__ == "__main__":
    sys.exit(main())
