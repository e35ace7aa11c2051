"""A program that holds a key, as one before a KMS does: `python signing_program.py SEED [MISBEHAVIOUR]`.

It shares no code with the package. Misbehaviours: `mute` says no key, `wrong` signs with another key, `dies`
ends at the first message, `slow` never answers one, `short` answers with too little.
"""

import base64
import os
import sys
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def main(seed: str, misbehaviour: str = "") -> None:
    """Answer until the input ends."""
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    if misbehaviour == "mute":
        return
    _say(key.public_key().public_bytes_raw())
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    for line in sys.stdin.buffer:
        message = base64.b64decode(line.strip(), validate=True)
        if misbehaviour == "dies":
            os._exit(1)
        if misbehaviour == "slow":
            time.sleep(60)
        signature = (other if misbehaviour == "wrong" else key).sign(message)
        _say(signature[:10] if misbehaviour == "short" else signature)


def _say(answer: bytes) -> None:
    sys.stdout.buffer.write(base64.b64encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
