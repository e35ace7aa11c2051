"""Body and stored form: what comes back is what was signed, and nothing else is taken for it."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.crypto.signing import FileSigner
from abeyance.errors import AbeyanceError, HistoryDamagedError, UnknownEventError
from abeyance.journal.body import format_body, leaf_hash, parse_body
from abeyance.journal.envelope import EventCodec, read_origin
from abeyance.journal.events import DEPLOYMENT_STREAM, CallPaused, Completed, ContentRef, LogOpened
from abeyance.journal.store import EventRow
from abeyance.world import from_micros

SIGNER = FileSigner.from_seed(b"\x02" * 32)
KEYS = {SIGNER.kid: SIGNER.public_key}
RUN = UUID("019bfb40-0000-7000-8000-000000000001")
AT = datetime(2026, 11, 30, 9, tzinfo=UTC)
CODEC = EventCodec("abeyance.example/prod-eu")
MOMENTS = st.integers(0, 2**55).map(from_micros)


def sealed(name: str = "the carrier's confirmation", version: int = 2) -> EventRow:
    event = CallPaused(line="shop:1", name=name, op="pickup", times_out_at=AT, wait="pause:x:1")
    row, _ = CODEC.seal(event, stream=RUN, version=version, prev=b"\x01" * 32, at=AT, signer=SIGNER)
    return row


class TestEventCodec:
    @given(st.text(min_size=1, max_size=200), MOMENTS)
    def test_any_name_and_time_come_back_and_verify(self, name: str, at: datetime) -> None:
        """The plain bytes that were signed come back from the stored form, whatever a wait is called."""
        try:
            event = CallPaused(line="m:1", name=name, op="1", times_out_at=at, wait="w")
            row, recorded = CODEC.seal(event, stream=RUN, version=7, prev=None, at=AT, signer=SIGNER)
        except (ValueError, UnicodeError):
            assert any("\ud800" <= character <= "\udfff" for character in name)
            return

        assert recorded == CODEC.verify(row, KEYS)
        plain = CODEC.plain(row)
        assert (
            plain
            == json.dumps(
                json.loads(plain), sort_keys=True, separators=(",", ":"), ensure_ascii=False
            ).encode()
        )

    @given(st.integers(min_value=0), st.integers(0, 7))
    def test_a_flipped_bit_never_changes_what_is_read(self, place: int, bit: int) -> None:
        """A changed stored form is refused, or unpacks to the very bytes that were signed (deflate has more
        than one form of some); it never reads as anything else.
        """
        row = sealed()
        state = bytearray(row.state)
        state[place % len(state)] ^= 1 << bit
        changed = row._replace(state=bytes(state))

        try:
            CODEC.verify(changed, KEYS)
        except AbeyanceError:
            return
        assert place % len(state) > 72
        assert CODEC.plain(row) == CODEC.plain(changed)

    @pytest.mark.parametrize(
        "change", [{"version": 3}, {"topic": "completed"}, {"run_id": DEPLOYMENT_STREAM}]
    )
    def test_columns_outside_the_signature_are_held_to_the_body(self, change: dict[str, object]) -> None:
        """A row that was moved or re-typed by editing its columns is damaged."""
        with pytest.raises(HistoryDamagedError):
            CODEC.open(sealed()._replace(**change))  # type: ignore[arg-type]

    def test_an_event_of_another_deployment_is_refused(self) -> None:
        """The origin is inside the signed bytes."""
        with pytest.raises(HistoryDamagedError):
            EventCodec("abeyance.example/test").open(sealed())

    def test_a_key_that_isn_t_certified_is_refused(self) -> None:
        """Whoever signs with a key of their own signs for nobody."""
        with pytest.raises(HistoryDamagedError):
            CODEC.verify(sealed(), {})

    def test_a_newer_body_version_is_a_loud_stop(self) -> None:
        """An older release never guesses what a newer one meant."""
        row = sealed()
        body = CODEC.plain(row).replace(b'"v":1,', b'"v":2,')

        with pytest.raises(UnknownEventError) as caught:
            CODEC.open(_with_body(row, body))

        assert ("call-paused", 2) == (caught.value.topic, caught.value.body_version)

    def test_a_bomb_isn_t_unpacked(self) -> None:
        """A stored form that inflates past the largest body is damaged, and costs no memory."""
        import zlib

        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        row = sealed()
        bomb = packer.compress(b"\x00" * 50_000_000) + packer.flush()

        with pytest.raises(HistoryDamagedError):
            CODEC.open(row._replace(state=row.state[:73] + bomb))

    def test_the_origin_is_read_from_the_first_event_alone(self) -> None:
        """A store says by itself which deployment it belongs to."""
        row, _ = CODEC.seal(
            LogOpened(origin=CODEC.origin, root="k"),
            stream=DEPLOYMENT_STREAM,
            version=1,
            prev=None,
            at=AT,
            signer=SIGNER,
        )

        assert "abeyance.example/prod-eu" == read_origin(row)


def _with_body(row: EventRow, body: bytes) -> EventRow:
    import zlib

    from abeyance.journal import envelope

    packer = zlib.compressobj(
        6, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, envelope._dictionary(SIGNER.kid, CODEC.origin, RUN)
    )
    return row._replace(state=row.state[:73] + packer.compress(body) + packer.flush())


class TestBody:
    def test_leaf_hash_is_that_of_the_specification_s_sample(self) -> None:
        """The published body has the published id."""
        body = format_body(
            at=datetime(2026, 11, 30, 9, 5, 0, 250_000, tzinfo=UTC),
            data=b"{}",
            kid=bytes.fromhex("47dea58ea00fae94"),
            log="abeyance.example/prod-eu",
            prev=bytes.fromhex("e6c23a8f684b301768661272662efa31f24efd33c48b19b607f01fa2b0c7c622"),
            run=RUN,
            topic="completed",
            version=3,
        )

        assert "f5307f65b52169e775b4d9822aed80e3648a7672b593c7bd5f5f1a69f0eea166" == leaf_hash(body).hex()

    @pytest.mark.parametrize(
        "change", [(b'"v":1', b'"v":01'), (b"{", b"{ "), (b'"at"', b'"aT"'), (b'"ver":2}', b'"ver":2}\n')]
    )
    def test_a_second_spelling_is_refused(self, change: tuple[bytes, bytes]) -> None:
        """One text per body: white space, leading zeros and other keys are not a body."""
        plain = CODEC.plain(sealed())
        assert RUN == parse_body(plain).run

        with pytest.raises(HistoryDamagedError):
            parse_body(plain.replace(*change))

    def test_a_body_over_the_limit_is_not_signed(self) -> None:
        """16 KiB is the most that a key service signs."""
        from abeyance.journal.events import DefinitionRef, Started

        ref = ContentRef(sha256="a" * 64, size=256)
        event = Started(
            definition=DefinitionRef(digest="a" * 64, id="f", kind="flow", version="1"),
            expires_at=AT + timedelta(1),
            input=ref,
            key_id=1,
            labels={"k": "x" * 17_000},
            project="p",
            workspace="w",
        )
        with pytest.raises(ValueError, match="over 16384"):
            CODEC.seal(event, stream=RUN, version=1, prev=None, at=AT, signer=SIGNER)
        CODEC.seal(Completed(output=ref), stream=RUN, version=2, prev=b"\x00" * 32, at=AT, signer=SIGNER)
