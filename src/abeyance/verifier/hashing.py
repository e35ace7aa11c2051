"""Hashes of the log: RFC 6962 trees, and RFC 9162's checks of proofs (2.1.3.2 and 2.1.4.2)."""

from collections.abc import Sequence
from hashlib import sha256

EMPTY_ROOT = sha256().digest()


def hash_leaf(entry: bytes) -> bytes:
    """The hash of one entry, which is also an event's id and its successor's `prev`."""
    return sha256(b"\x00" + entry).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that leaves are appended to, held as the roots of its perfect subtrees, largest first."""

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        if size < 0 or len(roots) != size.bit_count():
            raise ValueError("a frontier has one root for each binary digit 1 of its size")
        self.size = size
        self.roots = list(roots)

    def append(self, leaf: bytes) -> None:
        """Add the next leaf's hash."""
        digits, roots = self.size, self.roots
        while digits & 1:
            leaf = sha256(b"\x01" + roots.pop() + leaf).digest()
            digits >>= 1
        roots.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root hash."""
        if not self.roots:
            return EMPTY_ROOT
        *rest, root = self.roots
        for left in reversed(rest):
            root = hash_node(left, root)
        return root


def follow_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to; `None` if it has the wrong length for this place."""
    if not 0 <= index < size:
        return None
    place, last, root = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return None
        if place & 1 or place == last:
            root = hash_node(sibling, root)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            root = hash_node(root, sibling)
        place, last = place >> 1, last >> 1
    return root if last == 0 else None


def is_consistent(older: int, newer: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree of `newer` leaves begins with that of `older` leaves."""
    if not 0 <= older <= newer:
        return False
    if older == newer:
        return not proof and old_root == new_root
    if older == 0:
        return not proof
    path = [old_root, *proof] if older & (older - 1) == 0 else list(proof)
    if not path:
        return False
    place, last = older - 1, newer - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for each in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            first, second = hash_node(each, first), hash_node(each, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = hash_node(second, each)
        place, last = place >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root
