"""Trees for tests: the straight definition of RFC 6962, which the tested code must agree with."""

from hashlib import sha256

from abeyance.audit.merkle import Subtrees


def plain_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, over hashes of leaves."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return sha256(b"\x01" + plain_root(leaves[:middle]) + plain_root(leaves[middle:])).digest()


def subtrees_over(leaves: list[bytes]) -> Subtrees:
    """Perfect subtrees of a list of leaves."""
    return lambda level, index: plain_root(leaves[index << level : (index + 1) << level])


def numbered(count: int) -> list[bytes]:
    """So many different leaves' hashes."""
    return [sha256(b"\x00" + number.to_bytes(8)).digest() for number in range(count)]
