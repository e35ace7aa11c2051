"""Whose requests are counted together: the peer's, or whoever a configured proxy says it speaks for."""

from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.http.client_address import Proxies, key_of, read_address

PROXY, OTHER_PROXY = "10.0.0.1", "10.0.0.2"
CLIENT, SPOOFED = "203.0.113.9", "198.51.100.66"
TRUSTED = "10.0.0.0/8, fd00::/8"


def scope(peer: str | None, *headers: tuple[str, str]) -> dict[str, Any]:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"client": None if peer is None else (peer, 4711), "headers": raw}


def counted(peer: str | None, *headers: tuple[str, str], trusted: str | None = TRUSTED) -> bytes:
    return Proxies(trusted).key_of(scope(peer, *headers))


def key(address: str) -> bytes:
    return key_of(ip_address(address))


class TestPeer:
    def test_nobody_is_believed_who_is_not_configured(self) -> None:
        headers = ("x-forwarded-for", SPOOFED), ("forwarded", f"for={SPOOFED}")

        assert key(CLIENT) == counted(CLIENT, *headers)
        assert key(PROXY) == counted(PROXY, *headers, trusted=None)

    @pytest.mark.parametrize("mapped", ["::ffff:203.0.113.9", "::FFFF:cb00:7109"])
    def test_an_ipv4_mapped_address_is_its_ipv4_address(self, mapped: str) -> None:
        assert key(CLIENT) == counted(mapped)

    def test_a_network_of_64_bits_is_one_client(self) -> None:
        assert counted("2001:db8:0:1::1") == counted("2001:db8:0:1:ffff:ffff:ffff:ffff")
        assert counted("2001:db8:0:1::1") != counted("2001:db8:0:2::1")

    def test_a_zone_is_left_out(self) -> None:
        assert counted("fe80::1%eth0") == counted("fe80::1%eth1")

    def test_a_unix_socket_counts_as_127_0_0_1(self) -> None:
        header = ("x-forwarded-for", CLIENT)

        assert key("127.0.0.1") == counted(None, header)
        assert key(CLIENT) == counted(None, header, trusted="127.0.0.1")
        assert key(CLIENT) == counted("", header, trusted="127.0.0.0/8")

    def test_an_odd_peer_is_counted_like_every_other_odd_one(self) -> None:
        assert counted("testclient") == counted("unknown")


class TestXForwardedFor:
    @pytest.mark.parametrize(
        "value",
        [
            CLIENT,
            f"{CLIENT}:4711",
            f"{SPOOFED}, {CLIENT}",
            f"unknown,,{CLIENT}",
            f"{SPOOFED}, {CLIENT}, {OTHER_PROXY}",
            f"{CLIENT},{OTHER_PROXY}, 10.9.9.9",
            f"::ffff:{CLIENT}",
            f"{'1.1.1.1, ' * 5_000}{CLIENT}",
            f"{SPOOFED},\t{CLIENT} ",
        ],
    )
    def test_the_first_from_the_right_that_is_no_proxy_counts(self, value: str) -> None:
        assert key(CLIENT) == counted(PROXY, ("x-forwarded-for", value))

    @pytest.mark.parametrize(
        "client", ["2001:db8::9", "[2001:db8::9]", "[2001:db8::9]:443", "2001:db8::9%eth0", "2001:DB8:0:0::9"]
    )
    def test_an_ipv6_address_in_any_spelling_counts(self, client: str) -> None:
        assert key("2001:db8::9") == counted("fd00::1", ("x-forwarded-for", client))

    def test_several_lines_are_one_list(self) -> None:
        lines = [("x-forwarded-for", value) for value in (SPOOFED, CLIENT, OTHER_PROXY)]

        assert key(CLIENT) == counted(PROXY, *lines)

    @pytest.mark.parametrize(
        "value",
        ["", "unknown", "_hidden", ",", f"{CLIENT},", f"{CLIENT}, 1.2.3", "1.2.3.256", "01.2.3.4", "\xff",
         "[::1", "1.2.3.4:x", "::1::", "[1.2.3.4]x", "-1", "0x7f.1", "1.2.3.4.5", f"for={CLIENT}",
         f'"{CLIENT}"'],
    )  # fmt: skip
    def test_where_a_proxy_says_nothing_that_can_be_read_it_counts_itself(self, value: str) -> None:
        assert key(PROXY) == counted(PROXY, ("x-forwarded-for", value))

    def test_what_a_further_proxy_says_is_read_on(self) -> None:
        assert key(OTHER_PROXY) == counted(PROXY, ("x-forwarded-for", f"{CLIENT}, oops, {OTHER_PROXY}"))

    def test_of_proxies_alone_the_furthest_counts(self) -> None:
        assert key("10.7.7.7") == counted(PROXY, ("x-forwarded-for", f"10.7.7.7, {OTHER_PROXY}"))

    def test_a_name_that_only_looks_alike_is_another_header(self) -> None:
        assert key(PROXY) == counted(PROXY, ("x_forwarded_for", SPOOFED), ("x-forwarded-forr", SPOOFED))

    def test_trusted_networks_may_be_written_as_ipv4_mapped(self) -> None:
        assert key(CLIENT) == counted(PROXY, ("x-forwarded-for", CLIENT), trusted="::ffff:10.0.0.0/104")


class TestForwarded:
    @pytest.mark.parametrize(
        "value",
        [
            f"for={CLIENT}",
            f"For={CLIENT};proto=https;by=10.0.0.1",
            f'proto=https;for="{CLIENT}:4711";host="runs.example.com:443"',
            f"for={SPOOFED}, for={CLIENT}",
            f'for=unknown, for="_x", for={CLIENT}, for={OTHER_PROXY}',
            f'for="x, for={CLIENT}',  # a quote that a client left open
            f'for={SPOOFED};x=",for={CLIENT}',
        ],
    )
    def test_the_first_from_the_right_that_is_no_proxy_counts(self, value: str) -> None:
        assert key(CLIENT) == counted(PROXY, ("forwarded", value))

    @pytest.mark.parametrize("client", ['"[2001:db8::9]"', '"[2001:db8::9]:443"', '"[2001:db8::9%1]"'])
    def test_an_ipv6_address_stands_in_brackets_and_quotes(self, client: str) -> None:
        assert key("2001:db8::9") == counted(PROXY, ("forwarded", f"for={client}"))

    @pytest.mark.parametrize(
        "value",
        ["", "for=", "for=unknown", "for=_hidden", "proto=https", f"for={CLIENT};for={SPOOFED}",
         f"for = {CLIENT}", f"for={CLIENT};", f'for="{CLIENT}', f'for={CLIENT};host="a,for={SPOOFED};x="',
         f'for={SPOOFED};x=", for={CLIENT};host="', f'for=\\"{CLIENT}\\"', "for=2001:db8::9", "=;=", "\x00",
         CLIENT],
    )  # fmt: skip
    def test_where_a_proxy_says_nothing_that_can_be_read_it_counts_itself(self, value: str) -> None:
        assert key(PROXY) == counted(PROXY, ("forwarded", value))


class TestBothHeaders:
    """A proxy sets one of them, and passes the other one on as the client sent it."""

    def test_where_they_agree_they_are_believed(self) -> None:
        headers = ("x-forwarded-for", CLIENT), ("forwarded", f'for="{CLIENT}:1"')

        assert key(CLIENT) == counted(PROXY, *headers)

    def test_where_they_disagree_the_proxy_counts(self) -> None:
        for spoofed in (SPOOFED, "192.0.2.1", "unknown"):
            assert key(PROXY) == counted(PROXY, ("x-forwarded-for", CLIENT), ("forwarded", f"for={spoofed}"))
            assert key(PROXY) == counted(PROXY, ("x-forwarded-for", spoofed), ("forwarded", f"for={CLIENT}"))


PIECES = (*'",;=[]:% .\t\\', "for", "For=", CLIENT, SPOOFED, PROXY, "::1", "10.1.1.1", "unknown")
TEXT = st.one_of(
    st.text(st.characters(max_codepoint=255), max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
)


class TestAnyHeader:
    @given(TEXT, TEXT)
    def test_none_crashes(self, x_forwarded_for: str, forwarded: str) -> None:
        counted(PROXY, ("x-forwarded-for", x_forwarded_for), ("forwarded", forwarded))
        counted(PROXY, ("forwarded", forwarded))

    @given(TEXT)
    @pytest.mark.parametrize("client", [CLIENT, "2001:db8::9"])
    def test_nothing_a_client_sends_changes_what_it_is_counted_under(self, client: str, sent: str) -> None:
        """What `$proxy_add_x_forwarded_for` and its like do: the peer goes behind what came."""
        node = f'"[{client}]"' if ":" in client else client

        assert key(client) == counted(PROXY, ("x-forwarded-for", f"{sent}, {client}"))
        assert key(client) == counted(PROXY, ("x-forwarded-for", sent), ("x-forwarded-for", client))
        assert key(client) == counted(PROXY, ("forwarded", f"{sent}, for={node};proto=https"))
        assert counted(PROXY, ("x-forwarded-for", client), ("forwarded", sent)) in (key(client), key(PROXY))


class TestReadAddress:
    @pytest.mark.parametrize("text", ["", "example.com", "1", "1.2.3.4/32", " 1.2.3.4", "１.2.3.4"])
    def test_anything_else_is_none(self, text: str) -> None:
        assert read_address(text) is None
