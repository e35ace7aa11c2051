"""The Merkle tree: the vectors of RFC 6962's reference tests, and agreement with its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.audit.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    frontier_of,
    inclusion_proof,
    leaf_hash,
    root_from_inclusion,
    root_of,
)
from tests.unit.audit.trees import numbered, plain_root, subtrees_over

# The leaves and roots of the reference tests of Certificate Transparency.
ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
INCLUSION = {
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
}
CONSISTENCY = {
    (1, 8): ("96a296d2", "5f083f0a", "6b47aaf2"),
    (6, 8): ("0ebc5d34", "ca854ea1", "d37ee418"),
    (2, 5): ("5f083f0a", "bc1a0643"),
    (6, 7): ("0ebc5d34", "b08693ec", "d37ee418"),
}

sizes = st.integers(min_value=1, max_value=300)


class TestRoot:
    @pytest.mark.parametrize("size", range(9))
    def test_the_reference_roots_come_out(self, size: int) -> None:
        frontier = Frontier()
        frontier.extend(LEAVES[:size])

        assert ROOTS[size] == frontier.root.hex()

    def test_the_empty_tree_has_the_hash_of_nothing(self) -> None:
        assert (EMPTY_ROOT, EMPTY_ROOT) == (Frontier().root, root_of(0, subtrees_over([])))

    @given(sizes)
    def test_a_tree_that_grows_leaf_by_leaf_is_the_whole_tree(self, size: int) -> None:
        leaves = numbered(size)
        frontier = Frontier()
        frontier.extend(leaves)

        assert frontier == frontier_of(size, subtrees_over(leaves))
        assert plain_root(leaves) == frontier.root


class TestInclusion:
    @pytest.mark.parametrize(("index", "size"), INCLUSION)
    def test_the_reference_proofs_come_out(self, index: int, size: int) -> None:
        proof = inclusion_proof(index, size, subtrees_over(LEAVES[:size]))

        assert INCLUSION[index, size] == tuple(each.hex() for each in proof)

    @given(sizes, st.data())
    def test_a_proof_leads_to_the_root(self, size: int, data: st.DataObject) -> None:
        leaves = numbered(size)
        index = data.draw(st.integers(min_value=0, max_value=size - 1))
        proof = inclusion_proof(index, size, subtrees_over(leaves))

        assert plain_root(leaves) == root_from_inclusion(leaves[index], index, size, proof)

    @given(st.integers(min_value=2, max_value=300), st.data())
    def test_a_changed_proof_leads_elsewhere_or_nowhere(self, size: int, data: st.DataObject) -> None:
        leaves = numbered(size)
        index = data.draw(st.integers(min_value=0, max_value=size - 1))
        proof = inclusion_proof(index, size, subtrees_over(leaves))
        place = data.draw(st.integers(min_value=0, max_value=len(proof) - 1))
        flipped = bytes([proof[place][0] ^ 1]) + proof[place][1:]
        changed = data.draw(
            st.sampled_from(
                [
                    [*proof[:place], flipped, *proof[place + 1 :]],
                    proof[:place] + proof[place + 1 :],
                    [*proof, proof[0]],
                    [],
                ]
            )
        )

        assert plain_root(leaves) != root_from_inclusion(leaves[index], index, size, changed)

    @given(st.integers(min_value=2, max_value=64), st.data())
    def test_a_proof_holds_for_no_other_place(self, size: int, data: st.DataObject) -> None:
        leaves = numbered(size)
        index, other = data.draw(
            st.lists(st.integers(min_value=0, max_value=size - 1), min_size=2, max_size=2, unique=True)
        )
        proof = inclusion_proof(index, size, subtrees_over(leaves))

        assert plain_root(leaves) != root_from_inclusion(leaves[index], other, size, proof)

    @pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
    def test_a_leaf_outside_the_tree_has_no_proof(self, index: int, size: int) -> None:
        assert root_from_inclusion(LEAVES[0], index, size, []) is None
        with pytest.raises(ValueError, match="not in the tree"):
            inclusion_proof(index, size, subtrees_over(LEAVES[: max(size, 0)]))


def roots_from_consistency(older: int, newer: int, old_root: bytes, proof: list[bytes]) -> object:
    """RFC 9162, 2.1.4.2, written as it stands there: whether the proof holds, as the two roots."""
    from abeyance.audit.merkle import node_hash

    path = [old_root, *proof] if older & (older - 1) == 0 else list(proof)
    place, last = older - 1, newer - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for each in path[1:]:
        assert last != 0
        if place & 1 or place == last:
            first, second = node_hash(each, first), node_hash(each, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, each)
        place, last = place >> 1, last >> 1
    assert last == 0
    return first, second


class TestConsistency:
    @pytest.mark.parametrize(("older", "newer"), CONSISTENCY)
    def test_the_reference_proofs_come_out(self, older: int, newer: int) -> None:
        proof = consistency_proof(older, newer, subtrees_over(LEAVES[:newer]))

        assert CONSISTENCY[older, newer] == tuple(each.hex()[:8] for each in proof)

    @given(st.integers(min_value=2, max_value=300), st.data())
    def test_a_proof_leads_to_both_roots(self, newer: int, data: st.DataObject) -> None:
        leaves = numbered(newer)
        older = data.draw(st.integers(min_value=1, max_value=newer - 1))
        old_root, new_root = plain_root(leaves[:older]), plain_root(leaves)
        proof = consistency_proof(older, newer, subtrees_over(leaves))

        assert (old_root, new_root) == roots_from_consistency(older, newer, old_root, proof)

    @pytest.mark.parametrize(("older", "newer"), [(0, 5), (5, 5), (0, 0)])
    def test_nothing_is_to_be_proved_from_nothing_or_the_same(self, older: int, newer: int) -> None:
        assert [] == consistency_proof(older, newer, subtrees_over(LEAVES[:newer]))

    def test_a_tree_never_shrinks(self) -> None:
        with pytest.raises(ValueError, match="larger"):
            consistency_proof(6, 5, subtrees_over(LEAVES))
