"""Keys and DSSE signatures: the vectors of the audit specification, and openssl as a second
implementation."""

import base64
import subprocess
from pathlib import Path

import pytest

from abeyance.crypto.signing import FileSigner, key_id, pae, public_pem, verify_signature
from abeyance.errors import ConfigurationError, VerificationError

EVENT_SEED = b"\x02" * 32
COMPLETED = (
    b'{"at":"2026-11-30T09:05:00.000000Z","data":{"answer":{"scheme":"s1","sha256":'
    b'"0d7b6e8037204d2744d272399abe6bd4784563f8846246ceb5dbc44d6400b2c6","size":256},'
    b'"by":"ef5116ae31c11bb1e818e83c602cab81","token":"019bfb40-0000-7000-8000-00000000a001"},'
    b'"kid":"47dea58ea00fae94","log":"abeyance.example/prod-eu",'
    b'"prev":"4f84e14060508538b29781724e673972f3b6c81870322d55072f83fc19c31147",'
    b'"run":"019bfb40-0000-7000-8000-000000000001","t":"wait-token-completed","v":1,"ver":2}'
)


class TestFileSigner:
    def test_key_id_is_the_start_of_the_digest_that_openssl_shows(self, tmp_path: Path) -> None:
        """An auditor gets the same id from the PEM with openssl and sha256sum alone."""
        signer = FileSigner.from_seed(EVENT_SEED)
        pem = tmp_path / "k.pem"
        pem.write_bytes(public_pem(signer.public_key))

        der = subprocess.run(
            ["openssl", "pkey", "-pubin", "-in", pem, "-outform", "DER"], check=True, capture_output=True
        ).stdout

        shown = subprocess.run(["sha256sum"], input=der, check=True, capture_output=True).stdout
        assert signer.kid.hex() == shown[:16].decode()
        assert "47dea58ea00fae94" == key_id(signer.public_key).hex()

    def test_signature_of_the_specification_s_sample_is_the_specified_one(self) -> None:
        """The sample log's event 3, signed by the event key, gives the published signature."""
        signature = FileSigner.from_seed(EVENT_SEED).sign(pae(COMPLETED))

        expected = "9TK+tyxibG4ssY5eslL9NnAPzdP/yi4MumromRilOxwR+tt/lcnUHFcqWdldyFPi+1hQlhVkShpU2IH5udR0Cw=="
        assert expected == base64.b64encode(signature).decode()

    def test_pem_comes_back_as_the_same_key(self) -> None:
        """A key that was written to a file signs as before."""
        signer = FileSigner.from_seed(EVENT_SEED)

        assert signer.public_key == FileSigner.from_pem(signer.to_pem()).public_key

    @pytest.mark.parametrize(
        "pem", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
    )
    def test_what_is_no_key_is_refused_as_configuration(self, pem: bytes) -> None:
        """A wrong key file stops the start with an error that says so."""
        with pytest.raises(ConfigurationError):
            FileSigner.from_pem(pem)


class TestVerifySignature:
    def test_changed_message_or_signature_or_key_is_refused(self) -> None:
        """One bit of any of the three is enough."""
        signer, other = FileSigner.from_seed(EVENT_SEED), FileSigner.from_seed(b"\x03" * 32)
        signature = signer.sign(b"message")
        verify_signature(signer.public_key, signature, b"message")

        for key, mark, message in (
            (signer.public_key, signature, b"massage"),
            (signer.public_key, bytes([signature[0] ^ 1]) + signature[1:], b"message"),
            (other.public_key, signature, b"message"),
        ):
            with pytest.raises(VerificationError):
                verify_signature(key, mark, message)
