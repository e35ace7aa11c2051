"""A key that another program holds: it signs, the private key never comes here.

The program is the way to a KMS, an HSM or another account's key file. It is started once and spoken to over
its standard input and output, a line each way, in standard base64: it first writes its raw Ed25519 public key
(32 bytes); then for each line that it reads (a message) it writes one (the signature, 64 bytes). It signs
pure Ed25519 (RFC 8032), no digest. It ends when its input does.
"""

import base64
import binascii
import os
import select
import subprocess
import threading
import weakref
from collections.abc import Sequence

from abeyance.crypto.signing import key_id, verify_signature
from abeyance.errors import ConfigurationError, StoreUnavailableError, VerificationError

ANSWER_TIMEOUT_S = 10.0
_MOST_BYTES = 4_096


class ProgramSigner:
    """A `Signer` whose key is held by the program that `command` starts.

    `close()` ends the program. Raises `ConfigurationError` if it can't be started or doesn't say its public
    key.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._rest = b""
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(f"the signing program can't be started: {error.strerror}") from error
        self.close = weakref.finalize(self, _end, self._process)
        try:
            self.public_key: bytes = self._read(32)
        except StoreUnavailableError as error:
            self.close()
            raise ConfigurationError(
                "the signing program must first write its raw Ed25519 public key, a line of base64"
            ) from error
        self.kid: bytes = key_id(self.public_key)

    def sign(self, message: bytes) -> bytes:
        """The program's signature of `message`, verified. Raises `StoreUnavailableError`; nothing is stored
        then. After a failure every call raises: an answer that comes late would be taken for the next one's.
        """
        with self._lock:
            try:
                self._write(base64.b64encode(message) + b"\n")
                signature = self._read(64)
                verify_signature(self.public_key, signature, message)
            except VerificationError as error:
                self.close()
                raise StoreUnavailableError("the signing program's signature doesn't hold") from error
            except StoreUnavailableError:
                self.close()
                raise
        return signature

    def _write(self, line: bytes) -> None:
        stream = self._process.stdin
        try:
            if stream is None or stream.closed:
                raise BrokenPipeError
            left = memoryview(line)
            while left:
                left = left[os.write(stream.fileno(), left) :]
        except OSError as error:
            raise StoreUnavailableError("the signing program has ended") from error

    def _read(self, size: int) -> bytes:
        """The next line's bytes, which must be so many."""
        stream = self._process.stdout
        while b"\n" not in self._rest:
            if stream is None or stream.closed:
                raise StoreUnavailableError("the signing program has ended")
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            piece = os.read(stream.fileno(), _MOST_BYTES) if poll.poll(self._timeout_s * 1000) else b""
            if not piece or len(self._rest) > _MOST_BYTES:
                raise StoreUnavailableError("the signing program doesn't answer")
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            answer = base64.b64decode(line.rstrip(b"\r"), validate=True)
        except binascii.Error as error:
            raise StoreUnavailableError("the signing program's answer isn't base64") from error
        if len(answer) != size:
            raise StoreUnavailableError(f"the signing program's answer doesn't have {size} bytes")
        return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
