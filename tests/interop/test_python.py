"""Our formats against other people's implementations: DSSE, RFC 6962 trees, RFC 8785 JSON."""

import base64
import json
import random
from pathlib import Path

import pytest

from abeyance.audit.merkle import frontier_of, leaf_hash
from abeyance.journal.body import leaf_hash as event_id
from tests.support.bundles import body_of, export, lines_of
from tests.unit.audit.trees import subtrees_over
from tests.unit.projections.histories import SIGNER

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export(tmp_path_factory.mktemp("log"), runs=3)[0]


class TestDsse:
    """securesystemslib, the reference implementation of in-toto and TUF."""

    def test_it_verifies_our_envelopes(self, bundle: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from securesystemslib.dsse import Envelope
        from securesystemslib.signer import SSlibKey

        public = Ed25519PublicKey.from_public_bytes(SIGNER.public_key)
        key = SSlibKey.from_crypto(public, keyid=SIGNER.kid.hex())
        verified = 0
        for line in lines_of(bundle):
            if "event" in line and body_of(line)["kid"] == SIGNER.kid.hex():
                envelope = Envelope.from_dict(line["event"])
                assert {key.keyid: key} == envelope.verify([key], 1)
                verified += 1
        assert 18 == verified


class TestTree:
    """pymerkle, an independent implementation of RFC 9162's trees."""

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 64, 65, 300])
    def test_it_finds_the_same_root(self, size: int) -> None:
        from pymerkle import InmemoryTree

        draw = random.Random(size)
        entries = [draw.randbytes(40) for _ in range(size)]
        theirs = InmemoryTree(algorithm="sha256")
        for entry in entries:
            theirs.append_entry(entry)
        leaves = [leaf_hash(entry) for entry in entries]

        assert theirs.get_root() == frontier_of(size, subtrees_over(leaves)).root


class TestCanonicalJson:
    """rfc8785, the JSON Canonicalization Scheme."""

    def test_a_body_is_what_it_writes(self, bundle: bytes) -> None:
        import rfc8785

        bodies = [base64.b64decode(line["event"]["payload"]) for line in lines_of(bundle) if "event" in line]

        assert bodies == [rfc8785.dumps(json.loads(body)) for body in bodies]
        assert all(len(event_id(body)) == 32 for body in bodies)


def test_the_folder_has_a_list_of_what_it_needs() -> None:
    """Packages for these tests alone: one is under the GPL, and abeyance imports none of them."""
    listed = (Path(__file__).parent / "requirements.txt").read_text().split()

    assert ["securesystemslib", "pymerkle", "rfc8785"] == [line.partition("=")[0] for line in listed]
