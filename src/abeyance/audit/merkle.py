"""The Merkle tree of the log: RFC 6962 hashing, RFC 9162 proofs (sections 2.1.3 and 2.1.4). Pure.

A proof is made from the hashes of perfect subtrees, which `Subtrees` gives: `(level, index)` names the one
over the `2**level` leaves from `index * 2**level` on. They never change once they are full, so any store of
them (tiles, a list, a cache) will do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

EMPTY_ROOT = sha256().digest()

Subtrees = Callable[[int, int], bytes]


def leaf_hash(entry: bytes) -> bytes:
    """The hash of one entry: SHA-256 of a zero byte and the entry."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node over its children's hashes."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(slots=True)
class Frontier:
    """What is needed of a tree to append to it: the roots of its perfect subtrees, largest first.

    There is one for each binary digit 1 of `size`. 32 bytes a digit hold a tree of any size.
    """

    size: int = 0
    roots: list[bytes] = field(default_factory=list)

    def append(self, leaf: bytes) -> None:
        """Add the next leaf's hash."""
        digits = self.size
        while digits & 1:
            leaf = node_hash(self.roots.pop(), leaf)
            digits >>= 1
        self.roots.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaves' hashes in order."""
        for leaf in leaves:
            self.append(leaf)

    @property
    def root(self) -> bytes:
        """The tree's root hash."""
        return _fold(self.roots) if self.roots else EMPTY_ROOT


def frontier_of(size: int, subtrees: Subtrees) -> Frontier:
    """The frontier of the first `size` leaves."""
    return Frontier(size, [subtrees(level, index) for level, index in _cover(0, size)])


def root_of(size: int, subtrees: Subtrees) -> bytes:
    """The root hash of the first `size` leaves."""
    return frontier_of(size, subtrees).root


def inclusion_proof(index: int, size: int, subtrees: Subtrees) -> list[bytes]:
    """The hashes that lead from leaf `index` to the root of `size` leaves, from the bottom up."""
    if not 0 <= index < size:
        raise ValueError("the leaf is not in the tree")
    start, end, path = 0, size, list[bytes]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_range_hash(middle, end, subtrees))
            end = middle
        else:
            path.append(_range_hash(start, middle, subtrees))
            start = middle
    return path[::-1]


def consistency_proof(older: int, newer: int, subtrees: Subtrees) -> list[bytes]:
    """The hashes that show that the tree of `newer` leaves begins with the tree of `older` leaves."""
    if not 0 <= older <= newer:
        raise ValueError("the older tree is larger than the newer one")
    if older in (0, newer):
        return []
    start, end, path, whole = 0, newer, list[bytes](), True
    while older != end:
        middle = start + _split(end - start)
        if older <= middle:
            path.append(_range_hash(middle, end, subtrees))
            end = middle
        else:
            path.append(_range_hash(start, middle, subtrees))
            start, whole = middle, False
    if not whole:
        path.append(_range_hash(start, end, subtrees))
    return path[::-1]


def root_from_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to, `None` if the proof can't be one of this place."""
    if not 0 <= index < size:
        return None
    place, last, root = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return None
        if place & 1 or place == last:
            root = node_hash(sibling, root)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            root = node_hash(root, sibling)
        place, last = place >> 1, last >> 1
    return root if last == 0 else None


def _split(count: int) -> int:
    """The largest power of two that is smaller than `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def _cover(start: int, end: int) -> list[tuple[int, int]]:
    """The perfect subtrees that make up the leaves from `start` to `end`, largest first. `start` is a
    multiple of the largest one's size, as it is wherever a tree is split.
    """
    found = []
    while start < end:
        level = (end - start).bit_length() - 1
        found.append((level, start >> level))
        start += 1 << level
    return found


def _range_hash(start: int, end: int, subtrees: Subtrees) -> bytes:
    return _fold([subtrees(level, index) for level, index in _cover(start, end)])


def _fold(roots: Sequence[bytes]) -> bytes:
    *rest, root = roots
    for left in reversed(rest):
        root = node_hash(left, root)
    return root
