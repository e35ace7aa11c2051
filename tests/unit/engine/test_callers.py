"""What a caller may, and what is there for them."""

import pytest

from abeyance.engine.callers import EVERYBODY, GRANTS, Caller
from abeyance.errors import PermissionDeniedError

READER = Caller("key:k1", "acme", "shop", frozenset({"read"}))


class TestCaller:
    def test_everybody_has_every_grant_everywhere(self) -> None:
        for grant in GRANTS:
            EVERYBODY.require_everywhere(grant)

    @pytest.mark.parametrize("grant", [each for each in GRANTS if each != "read"])
    def test_no_grant_includes_another(self, grant: str) -> None:
        with pytest.raises(PermissionDeniedError) as refused:
            READER.require(grant)
        assert refused.value.grant == grant

    def test_a_grant_holds_in_the_project_that_the_key_is_bound_to_and_in_no_other(self) -> None:
        READER.require("read", project="shop")
        with pytest.raises(PermissionDeniedError):
            READER.require("read", project="billing")

    def test_execute_may_cover_some_definitions_only(self) -> None:
        caller = Caller("key:k1", grants=frozenset({"execute"}), executes=frozenset({"shop.ship"}))
        caller.require("execute", definition="shop.ship")
        with pytest.raises(PermissionDeniedError):
            caller.require("execute", definition="shop.refund")

    @pytest.mark.parametrize(
        ("workspace", "project", "seen"),
        [
            ("acme", "shop", True),
            ("acme", "billing", False),
            ("acme", None, False),
            ("other", "shop", False),
        ],
    )
    def test_a_key_bound_to_a_project_sees_that_project_only(
        self, workspace: str, project: str | None, seen: bool
    ) -> None:
        assert READER.sees(workspace, project) is seen

    def test_a_key_of_the_workspace_sees_all_its_projects(self) -> None:
        assert Caller("key:k2", "acme").sees("acme", "shop")
        assert Caller("key:k2", "acme").sees("acme")

    def test_a_keys_grant_is_not_the_deployments(self) -> None:
        with pytest.raises(PermissionDeniedError):
            Caller("key:k2", "acme").require_everywhere("admin")
