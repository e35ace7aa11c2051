"""`docs/how-to/run-behind-a-proxy.md`: its variables are settings, and its figures are the code's."""

import re

import pytest

from abeyance.bootstrap.logs import redact
from abeyance.http import rate_limit
from abeyance.http.client_address import Proxies, key_of, read_address
from abeyance.journal import permits
from abeyance.settings import Settings
from tests.support.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "run-behind-a-proxy.md"
TEXT = PAGE.read_text()
VARIABLES = dict(re.findall(r"^export (\w+)=(.*)$", blocks(PAGE)[0].code, re.MULTILINE))


class TestPage:
    def test_its_variables_are_settings(self) -> None:
        settings = Settings.load(VARIABLES)

        assert ("https://runs.example.com", "10.0.0.0/8") == (settings.public_url, settings.trusted_proxies)
        assert Settings.load({}).link_rate == settings.link_rate

    def test_what_it_lets_nginx_log_is_what_we_log(self) -> None:
        (nginx,) = (block.code for block in blocks(PAGE) if block.language == "nginx")
        routes = re.findall(r'"~(\^/\S+)"\s+"(\S+)";', nginx)

        for pattern, route in routes:
            path = route.replace(":token", "secret")
            assert re.match(pattern, path)
            assert route == redact(path)
        assert 3 == len(routes)

    @pytest.mark.parametrize(
        ("said", "value"),
        [
            (r"a\s+fortieth of the limit \((\d+)\)", 600 // rate_limit._BLOCK_SHARE),
            (r"for (\d+) s, or for 1 s once half", permits.LONG_US // 1_000_000),
            (r"at most (\d+),000 clients a process", rate_limit._MOST_CLIENTS // 1_000),
            (r"locks nobody out for longer than (\d+) s", (permits.WINDOW_US + permits.LONG_US) // 1_000_000),
        ],
    )
    def test_its_figures_are_the_codes(self, said: str, value: int) -> None:
        (figure,) = re.findall(said, TEXT)

        assert str(value) == figure

    @pytest.mark.parametrize("client", re.findall(r"\(`([\d.:]+)`, `\"(\[.*?\]:\d+)\"`\)", TEXT)[0])
    def test_the_ports_that_it_shows_are_left_out(self, client: str) -> None:
        scope = {"client": ("10.0.0.1", 1), "headers": [(b"x-forwarded-for", client.encode())]}
        address = read_address("2001:db8::9" if "[" in client else "203.0.113.9")

        assert address is not None
        assert key_of(address) == Proxies(VARIABLES["ABEYANCE_TRUSTED_PROXIES"]).key_of(scope)
