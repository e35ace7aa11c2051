"""`Authorization: Bearer`: what opens the API, and that nothing odd does more than fail."""

import falcon.testing
import pytest

from abeyance.engine.callers import EVERYBODY, Caller
from abeyance.errors import (
    ConfigurationError,
    StoreUnavailableError,
    UnauthenticatedError,
    WorkspaceNotFoundError,
)
from abeyance.http.authentication import AuthenticationOff, DeploymentKey, Keys
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


class FakeHolders:
    """One API key, `GOOD`, of `acme`; a workspace `acme`. `gone`: the store can't be asked."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.asked: list[bytes] = []

    async def find(self, key: bytes) -> Caller | None:
        self.asked.append(key)
        if self.gone:
            raise StoreUnavailableError
        return HOLDER if key == GOOD.encode() else None

    async def has_workspace(self, workspace: str) -> bool:
        if self.gone:
            raise StoreUnavailableError
        return workspace == "acme"


GOOD = "abk_" + "x" * 43
HOLDER = Caller("key_1", "acme", None, frozenset({"read"}))


def with_key(key: str, **more: str) -> list[tuple[bytes, bytes]]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    return [*sent(f"Bearer {key}".encode()), *named]


@pytest.mark.anyio
class TestKeys:
    async def test_an_api_key_stands_for_its_holder(self) -> None:
        assert HOLDER == await Keys(DeploymentKey(KEY), FakeHolders()).check(with_key(GOOD))

    async def test_the_deployments_key_asks_no_store(self) -> None:
        holders = FakeHolders(gone=True)
        caller = await Keys(DeploymentKey(KEY, holders), holders).check(with_key(KEY))

        assert ("deployment", "default", True) == (caller.actor, caller.workspace, caller.everywhere)
        assert [] == holders.asked

    async def test_the_deployments_key_works_in_the_workspace_that_is_named(self) -> None:
        keys = Keys(DeploymentKey(KEY, FakeHolders()), FakeHolders())

        assert "acme" == (await keys.check(with_key(KEY, abeyance_workspace="acme"))).workspace
        with pytest.raises(WorkspaceNotFoundError):
            await keys.check(with_key(KEY, abeyance_workspace="typo"))

    async def test_an_api_key_works_in_no_other_workspace(self) -> None:
        keys = Keys(None, FakeHolders())

        assert HOLDER == await keys.check(with_key(GOOD, abeyance_workspace="acme"))
        with pytest.raises(WorkspaceNotFoundError):
            await keys.check(with_key(GOOD, abeyance_workspace="default"))

    @pytest.mark.parametrize("named", [b"\xff", b"acme\xc3"])
    async def test_a_name_that_is_no_text_is_no_workspaces(self, named: bytes) -> None:
        with pytest.raises(WorkspaceNotFoundError):
            await Keys(None, FakeHolders()).check([*with_key(GOOD), (b"abeyance-workspace", named)])

    async def test_two_names_are_none(self) -> None:
        headers = [*with_key(GOOD), (b"abeyance-workspace", b"acme"), (b"abeyance-workspace", b"default")]

        with pytest.raises(WorkspaceNotFoundError):
            await Keys(None, FakeHolders()).check(headers)

    @pytest.mark.parametrize("headers", [[], with_key("abk_wrong"), with_key("")])
    async def test_without_a_key_that_is_good_nobody_passes(self, headers: list[tuple[bytes, bytes]]) -> None:
        with pytest.raises(UnauthenticatedError):
            await Keys(DeploymentKey(KEY), FakeHolders()).check(headers)

    async def test_switched_off_everybody_works_in_the_workspace_that_is_named(self) -> None:
        off = AuthenticationOff(FakeHolders())

        assert EVERYBODY == await off.check([])
        assert "acme" == (await off.check([(b"abeyance-workspace", b"acme")])).workspace


class TestStoreThatIsGone:
    def test_a_key_that_cannot_be_looked_up_is_503_and_never_401(self) -> None:
        runs = FakeRuns()
        client = falcon.testing.TestClient(api(runs, auth=Keys(DeploymentKey(KEY), FakeHolders(gone=True))))

        result = client.simulate_get(RUN, headers={"Authorization": f"Bearer {GOOD}"})

        assert (503, "tenant-state-unavailable") == (result.status_code, result.json["error"]["code"])
        assert "1" == result.headers["Retry-After"]
        assert [] == runs.calls


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
