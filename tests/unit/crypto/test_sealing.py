"""Sealing under run keys, and wrapping of keys."""

import pytest

from abeyance.crypto.sealing import RunKey, unwrap_key, wrap_key
from abeyance.errors import ConfigurationError, VerificationError

KEY = bytes(range(32))
NONCE = b"\x07" * 12


class TestRunKey:
    def test_a_blob_opens_only_where_it_belongs(self) -> None:
        """Another key, other associated data or a changed byte opens nothing."""
        key = RunKey(1, KEY)
        blob = key.seal(NONCE, b"what was said", b"run 1, event 3")
        assert b"what was said" == key.open(blob, b"run 1, event 3")

        for opener, sealed, associated in (
            (RunKey(1, KEY[::-1]), blob, b"run 1, event 3"),
            (key, blob, b"run 2, event 3"),
            (key, blob[:-1] + bytes([blob[-1] ^ 1]), b"run 1, event 3"),
            (key, b"", b"run 1, event 3"),
        ):
            with pytest.raises(VerificationError):
                opener.open(sealed, associated)

    def test_keyed_digests_differ_by_key_and_purpose(self) -> None:
        """A digest of arguments can't be taken for another purpose's, nor guessed without the key."""
        key = RunKey(1, KEY)

        digests = {
            key.keyed_digest(b"args", b"x"),
            key.keyed_digest(b"tag", b"x"),
            RunKey(1, KEY[::-1]).keyed_digest(b"args", b"x"),
        }

        assert 3 == len(digests)


class TestWrapping:
    def test_a_wrapped_key_comes_back_only_under_its_wrapping_key(self) -> None:
        """RFC 3394's integrity check tells the wrong master key."""
        wrapped = wrap_key(KEY, b"\x01" * 32)

        assert b"\x01" * 32 == unwrap_key(KEY, wrapped)
        assert 40 == len(wrapped)
        with pytest.raises(ConfigurationError):
            unwrap_key(KEY[::-1], wrapped)
