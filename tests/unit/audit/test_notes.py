"""Signed notes and checkpoints: vectors that other implementations agree with, and what is refused."""

import base64

import pytest

from abeyance.audit.notes import Checkpoint, NoteKey, open_note, parse_checkpoint, parse_note_key, sign_note
from abeyance.crypto.signing import FileSigner
from abeyance.errors import VerificationError

# From the tests of Go's sumdb/note.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE_NOTE = (
    "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Z"
    "tg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
# A log whose key has the seed 32 times 03; the signature is deterministic.
ORIGIN = "abeyance.example/prod-eu"
LOG_KEY = "abeyance.example/prod-eu+2d391f9b+Ae1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR"
ROOT = bytes.fromhex("e30486f29fb6b9d0a65e3fd5de862c732d6a6629a9c93f72c21cbf6d44abbbe4")
LOG_NOTE = (
    "abeyance.example/prod-eu\n6\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n\n"
    "— abeyance.example/prod-eu LTkfm/1PuxydJ8POkB1/s2CJxX9Ro+u00VtE8qJ/Baa61LiDapZQkfHVIFPPMJIrSOr7nlUANOaS7"
    "3EgPEqtxqPDnw8=\n"
)
WITNESS_LINE = (
    "— witness.example/w1 FB8mCgAAAABrDUkgfRNhQRFUs5xJrab7XQ2OQLRmHfc1HBGK67QCeqbdzb2uoes44reXEANN0ZZ1lmf0"
    "rkrBMjhNLjFCeumMLs7HAw==\n"
)
LOG = FileSigner.from_seed(b"\x03" * 32)
OTHER = FileSigner.from_seed(b"\x04" * 32)


class TestNotes:
    def test_gos_example_note_holds(self) -> None:
        assert "This is an example message.\n" == open_note(EXAMPLE_NOTE, parse_note_key(EXAMPLE_KEY))

    def test_a_checkpoint_is_signed_as_others_sign_it(self) -> None:
        assert LOG_NOTE == sign_note(Checkpoint(ORIGIN, 6, ROOT).text, ORIGIN, LOG)
        assert LOG_KEY == NoteKey(ORIGIN, LOG.public_key).text

    def test_a_note_with_a_witness_holds_by_the_logs_key(self) -> None:
        text = open_note(LOG_NOTE + WITNESS_LINE, parse_note_key(LOG_KEY))

        assert Checkpoint(ORIGIN, 6, ROOT) == parse_checkpoint(text)

    def test_a_text_may_hold_empty_lines(self) -> None:
        note = sign_note("one\n\ntwo\n", ORIGIN, LOG)

        assert "one\n\ntwo\n" == open_note(note, NoteKey(ORIGIN, LOG.public_key))

    @pytest.mark.parametrize("place", range(0, len(LOG_NOTE), 7))
    def test_a_changed_note_is_refused(self, place: int) -> None:
        changed = LOG_NOTE[:place] + chr(ord(LOG_NOTE[place]) ^ 1) + LOG_NOTE[place + 1 :]

        with pytest.raises(VerificationError):
            open_note(changed, parse_note_key(LOG_KEY))

    @pytest.mark.parametrize(
        "note",
        [
            "",
            "\n",
            "text\n",
            "text\n\n",
            "text\n\n—\n",
            LOG_NOTE[:-1],
            LOG_NOTE.rpartition("—")[0],
            LOG_NOTE + "x",
        ],
    )
    def test_what_is_no_note_is_refused(self, note: str) -> None:
        with pytest.raises(VerificationError):
            open_note(note, parse_note_key(LOG_KEY))

    def test_another_logs_signature_counts_for_nothing(self) -> None:
        with pytest.raises(VerificationError, match="no known key"):
            open_note(sign_note("text\n", ORIGIN, OTHER), parse_note_key(LOG_KEY))

    def test_a_known_keys_wrong_signature_refuses_the_note_beside_a_right_one(self) -> None:
        other = NoteKey("other", OTHER.public_key)
        wrong = base64.b64encode(other.key_id + bytes(64)).decode()

        with pytest.raises(VerificationError, match="signature"):
            open_note(f"text\n\n— other {wrong}\n", other, parse_note_key(LOG_KEY))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "name",
            "name+00000000",
            LOG_KEY.replace("2d39", "2d38"),
            LOG_KEY + "A",
            LOG_KEY.replace("+Ae1", "+BO1"),
        ],
    )
    def test_what_is_no_verifier_key_is_refused(self, text: str) -> None:
        with pytest.raises(VerificationError):
            parse_note_key(text)


class TestCheckpoints:
    @pytest.mark.parametrize(
        "text",
        [
            "", "a\n", "a\n6\n", "\n6\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n",
            "a\n06\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n",
            "a\n-6\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n", "a\n6\n4wSG\n", "a\n6\n***\n",
            "a\n٦\n4wSG8p+2udCmXj/V3oYscy1qZimpyT9ywhy/bUSru+Q=\n",
        ],
    )  # fmt: skip
    def test_what_is_no_checkpoint_is_refused(self, text: str) -> None:
        with pytest.raises(VerificationError, match="checkpoint"):
            parse_checkpoint(text)

    def test_lines_after_the_third_are_extensions(self) -> None:
        checkpoint = Checkpoint("a", 6, ROOT)

        assert checkpoint == parse_checkpoint(checkpoint.text + "extension\n")
