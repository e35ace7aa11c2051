"""How fast the machine is while something else is measured: the CPU time of one Ed25519 signature.

Clouds sell slices of processors, and a neighbour can halve their speed without a sign in the load. The
signature is compiled code that nobody here can change, takes no memory to speak of, and is about a tenth
of a run's CPU, so two results can be compared by what it took beside each of them. An idle 3 GHz server
core needs about 32 µs.
"""

import time
from statistics import median

from abeyance.crypto.signing import FileSigner

ROUNDS = 40
A_ROUND = 25


def sign_us() -> float:
    """Microseconds of CPU a signature: the median of some rounds over about 40 ms."""
    signer, message = FileSigner.from_seed(bytes(32)), bytes(400)
    return median(_round(signer, message) for _ in range(ROUNDS))


def _round(signer: FileSigner, message: bytes) -> float:
    began = time.thread_time()
    for _ in range(A_ROUND):
        signer.sign(message)
    return (time.thread_time() - began) / A_ROUND * 1e6
