"""`Authorization: Bearer`: what opens the API, and that nothing odd does more than fail."""

import falcon.testing
import pytest

from abeyance.errors import ConfigurationError, UnauthenticatedError
from abeyance.http.authentication import AuthenticationOff, DeploymentKey
from tests.api.fake_runs import KEY, RUN, FakeRuns, api

CLOSED_TO_ALL = [
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs"),
    ("GET", RUN),
    ("HEAD", RUN),
    ("POST", f"{RUN}/resume"),
    ("POST", f"{RUN}/cancel"),
    ("GET", f"{RUN}/journal"),
    ("GET", "/v1/audit/records"),
    ("GET", "/metrics"),
]


def sent(header: bytes | None) -> list[tuple[bytes, bytes]]:
    return [] if header is None else [(b"authorization", header)]


@pytest.mark.anyio
class TestDeploymentKey:
    @pytest.mark.parametrize(
        "header", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER {KEY}", f"Bearer   {KEY}", f"Bearer {KEY} "]
    )
    async def test_the_key_opens_whatever_the_schemes_case(self, header: str) -> None:
        assert "deployment" == (await DeploymentKey(KEY).check(sent(header.encode()))).actor

    @pytest.mark.case("F07")
    @pytest.mark.parametrize(
        "header",
        [
            None,
            b"",
            b"Bearer",
            b"Bearer ",
            b"Bearer k\xe9y",
            "Bearer “abk_0123456789”".encode(),
            b"Bearer " + b"a" * 10_240,
            b"Bearer abk_01234567890",
            b"Bearer abk_012345678",
            b"Bearer  two spaces",
            b"Bearer abk_0123456789 more",
            b"Bearer\tabk_0123456789",
            b"Bearer abk_0123456789\n",
            b"Bearer\x00abk_0123456789",
            b"Basic YTpi",
            b"Bearerabk_0123456789",
            KEY.encode(),
        ],
    )
    async def test_anything_else_is_refused(self, header: bytes | None) -> None:
        with pytest.raises(UnauthenticatedError):
            await DeploymentKey(KEY).check(sent(header))

    @pytest.mark.case("F07")
    async def test_the_last_line_of_a_key_file_does_not_count(self) -> None:
        assert "deployment" == (await DeploymentKey(f"{KEY}\n").check(sent(b"Bearer " + KEY.encode()))).actor

    @pytest.mark.parametrize("key", ["", " \n", "two words", "schlüssel", "a\nb"])
    async def test_a_key_that_no_header_can_hold_is_refused(self, key: str) -> None:
        with pytest.raises(ConfigurationError):
            DeploymentKey(key)

    async def test_it_shows_no_key(self) -> None:
        assert KEY not in repr(vars(DeploymentKey(KEY)))


class TestDoor:
    @pytest.mark.parametrize(("method", "path"), CLOSED_TO_ALL)
    @pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer k\xe9y", "Basic YTpi"])
    def test_without_the_key_nothing_is_done(self, method: str, path: str, header: str | None) -> None:
        runs = FakeRuns()
        client = falcon.testing.TestClient(api(runs))

        result = client.simulate_request(method, path, headers={"Authorization": header} if header else {})

        assert 401 == result.status_code
        assert "Bearer" == result.headers["WWW-Authenticate"]
        assert [] == runs.calls

    def test_two_keys_are_none(self) -> None:
        headers = [("Authorization", f"Bearer {KEY}"), ("Authorization", f"Bearer {KEY}")]

        result = falcon.testing.TestClient(api(FakeRuns())).simulate_get(RUN, headers=headers)

        assert 401 == result.status_code

    @pytest.mark.parametrize("path", ["/health", "/ready", "/v1/openapi.json"])
    def test_what_is_open_to_all_asks_nobody(self, path: str) -> None:
        result = falcon.testing.TestClient(api(FakeRuns())).simulate_get(
            path, headers={"Authorization": "Bearer k\xe9y"}
        )

        assert 200 == result.status_code

    @pytest.mark.parametrize("header", [None, "Bearer whatever", "Basic YTpi"])
    def test_switched_off_it_lets_everybody_pass(self, header: str | None) -> None:
        runs = FakeRuns()
        client = falcon.testing.TestClient(api(runs, auth=AuthenticationOff()))

        result = client.simulate_get(RUN, headers={"Authorization": header} if header else {})

        assert 200 == result.status_code
