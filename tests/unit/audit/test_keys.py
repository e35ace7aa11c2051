"""Which keys the log certifies."""

import pytest

from abeyance.audit.keys import certified_keys
from abeyance.crypto.signing import FileSigner, encode_public_key
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec
from abeyance.journal.store import EventRow
from tests.unit.projections.histories import ORIGIN, ROOT, SIGNER, START, deployment_rows

OTHER = FileSigner.from_seed(b"\x09" * 32)


def extended(event: e.Event, signer: FileSigner) -> list[EventRow]:
    """The deployment's stream with one more event."""
    rows, codec = deployment_rows(), EventCodec(ORIGIN)
    prev = codec.open(rows[-1]).digest
    row, _ = codec.seal(
        event, stream=e.DEPLOYMENT_STREAM, version=3, prev=prev, at=START, signer=signer
    )  # fmt: skip
    return [*rows, row]


def key_added(signer: FileSigner, **changes: object) -> e.KeyAdded:
    certified = {"key": encode_public_key(signer.public_key), "kid": signer.kid.hex(), "use": "events"}
    return e.KeyAdded.model_validate(certified | changes)


class TestCertifiedKeys:
    def test_the_log_certifies_the_key_that_signs_events(self) -> None:
        certified = certified_keys(deployment_rows(), ROOT.public_key)

        assert {SIGNER.kid: SIGNER.public_key} == certified.event_keys
        assert (ORIGIN, True, ()) == (certified.origin, certified.anchored, certified.findings)

    def test_without_a_pin_the_log_vouches_for_itself_only(self) -> None:
        certified = certified_keys(deployment_rows())

        assert (False, ROOT.public_key, ()) == (certified.anchored, certified.root, certified.findings)

    @pytest.mark.case("G05")
    def test_another_root_key_certifies_nothing(self) -> None:
        """A store that was made anew with other keys is consistent in itself; the pin tells."""
        certified = certified_keys(deployment_rows(), OTHER.public_key)

        assert ({}, False) == (certified.event_keys, certified.anchored)
        assert {"key"} == {finding.rule for finding in certified.findings}

    def test_a_second_key_counts_when_the_root_signed_for_it(self) -> None:
        certified = certified_keys(extended(key_added(OTHER), ROOT))

        assert {SIGNER.kid, OTHER.kid} == set(certified.event_keys)

    def test_a_key_that_another_key_signed_for_does_not_count(self) -> None:
        certified = certified_keys(extended(key_added(OTHER), SIGNER))

        assert {SIGNER.kid} == set(certified.event_keys)
        assert [(3, "key")] == [(finding.version, finding.rule) for finding in certified.findings]

    @pytest.mark.parametrize(
        "changes", [{"kid": "00" * 8}, {"key": "not base64"}, {"key": encode_public_key(b"short")}]
    )
    def test_a_key_and_its_id_belong_together(self, changes: dict[str, object]) -> None:
        certified = certified_keys(extended(key_added(OTHER, **changes), ROOT))

        assert {SIGNER.kid} == set(certified.event_keys)
        assert [(3, "key")] == [(finding.version, finding.rule) for finding in certified.findings]

    def test_a_key_for_the_log_signs_no_events(self) -> None:
        certified = certified_keys(extended(key_added(OTHER, use="log"), ROOT))

        assert ({SIGNER.kid}, ()) == (set(certified.event_keys), certified.findings)

    @pytest.mark.case("G12")
    def test_a_store_without_a_log_certifies_nothing(self) -> None:
        certified = certified_keys([], ROOT.public_key)

        assert ({}, 1) == (certified.event_keys, len(certified.findings))

    def test_a_log_that_can_not_be_read_certifies_nothing(self) -> None:
        first, *rest = deployment_rows()

        certified = certified_keys([first._replace(state=first.state[:90]), *rest], ROOT.public_key)

        assert ({}, 1) == (certified.event_keys, len(certified.findings))
