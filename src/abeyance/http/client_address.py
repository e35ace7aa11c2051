"""Who sends: the address that requests are counted under.

The peer of the connection, unless it is a configured proxy: then what that proxy says, and so on from the
right of `X-Forwarded-For` or `Forwarded` (RFC 7239) to the first address that is no configured proxy.
Everything left of that one was written by the client and is never read. Where a proxy's word can't be read
(`unknown`, an obfuscated name, anything odd), its own address counts: a smaller share, never a larger one.

Whoever sets one of the two headers passes the other one on as the client sent it. So if a request has both
and they disagree, the nearest proxy's address counts for it.

One key an IPv4 address, one an IPv6 network of 64 bits (RFC 6177: what one site has at least); an IPv4-mapped
address is its IPv4 address, a zone is left out. A connection without an address, over a Unix socket, counts
as 127.0.0.1.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# A chain of more proxies than this isn't followed to its end.
_MOST_HOPS: Final = 32
_LOOPBACK: Final = IPv4Address("127.0.0.1")

# RFC 7239, section 6: an address, an IPv6 one in brackets, either maybe with a port.
_NODE: Final = re.compile(r"\[([0-9A-Fa-f:.]+)(?:%[^\]]*)?\](?::\d{1,5})?|([0-9.]+)(?::\d{1,5})?")
# RFC 7239, section 4. A quoted string holds no more than nodes, hosts and ports need: no comma, no quote, so
# that elements can be told apart from the right, whatever stands further left.
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PAIR: Final = re.compile(rf'[ \t]*({_TOKEN})=(?:({_TOKEN})|"([^",;\\]*)")[ \t]*')


class Proxies:
    """The proxies whose word is believed. `networks`: addresses and networks, with commas between."""

    def __init__(self, networks: str | None = None) -> None:
        texts = networks.split(",") if networks else []
        self._networks = tuple(_plain_network(ip_network(text.strip(), strict=False)) for text in texts)
        self._peer = lru_cache(maxsize=4_096)(self._read_peer)

    def key_of(self, scope: dict[str, Any]) -> bytes:
        """What the sender of this ASGI request is counted under."""
        client = scope.get("client")
        key, address = self._peer(client[0] if client else "")
        return key if address is None else key_of(self._behind(address, scope["headers"]))

    def _read_peer(self, host: str) -> tuple[bytes, Address | None]:
        """The peer's key, and its address if it is a proxy."""
        address = read_address(host) if host else _LOOPBACK
        if address is None:
            return b"?", None
        return key_of(address), address if self._trusts(address) else None

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _behind(self, proxy: Address, headers: Iterable[tuple[bytes, bytes]]) -> Address:
        """The address that a proxy says it speaks for."""
        x_forwarded_for: list[bytes] = []
        forwarded: list[bytes] = []
        for name, value in headers:
            if name == b"x-forwarded-for":
                x_forwarded_for.append(value)
            elif name == b"forwarded":
                forwarded.append(value)
        said = set()
        if x_forwarded_for:
            said.add(self._follow(proxy, map(_read_hop, _from_the_right(x_forwarded_for))))
        if forwarded:
            said.add(self._follow(proxy, map(_read_element, _from_the_right(forwarded))))
        return said.pop() if len(said) == 1 else proxy

    def _follow(self, proxy: Address, hops: Iterator[Address | None]) -> Address:
        """The first address that is no proxy; the last proxy, where one says nothing that can be read."""
        for hop in hops:
            if hop is None:
                return proxy
            if not self._trusts(hop):
                return hop
            proxy = hop
        return proxy


def key_of(address: Address) -> bytes:
    """What an address is counted under: 4 bytes, or the first 8 of 16."""
    return address.packed if isinstance(address, IPv4Address) else address.packed[:8]


def read_address(text: str) -> Address | None:
    """The address that `text` is; without a zone, and an IPv4-mapped one as IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _plain_network(network: Network) -> Network:
    """A network of IPv4-mapped addresses as one of IPv4."""
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, network.prefixlen - 96))
    return network


def _from_the_right(lines: list[bytes]) -> list[str]:
    """The last elements of a list header (RFC 9110, section 5.3), the last one first."""
    elements = b",".join(lines[-_MOST_HOPS:]).decode("latin-1").rsplit(",", _MOST_HOPS)
    return elements[: -_MOST_HOPS - 1 : -1]


def _read_hop(text: str) -> Address | None:
    """An element of `X-Forwarded-For`: an address, with a port behind it from some proxies."""
    text = text.strip(" \t")
    return read_address(text) or _read_node(text)


def _read_node(text: str) -> Address | None:
    found = _NODE.fullmatch(text)
    return read_address(found[1] or found[2]) if found else None


def _read_element(text: str) -> Address | None:
    """The `for` of one element of `Forwarded`."""
    named: list[str] = []
    for part in text.split(";"):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            return None
        if pair[1].lower() == "for":
            named.append(pair[2] if pair[3] is None else pair[3])
    return _read_node(named[0]) if len(named) == 1 else None
