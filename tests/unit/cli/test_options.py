"""Times on the command line."""

import pytest
import typer

from abeyance.cli.options import parse_duration


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [
            ("1", 1),
            ("1500ms", 1_500),
            ("90s", 90_000),
            ("15m", 900_000),
            ("2h", 7_200_000),
            ("3d", 259_200_000),
        ],
    )
    def test_a_number_and_its_unit(self, text: str, milliseconds: int) -> None:
        assert milliseconds == parse_duration("--ttl", text)

    @pytest.mark.parametrize("text", ["", "0", "-1s", "1.5h", "1w", "h", "١s", "1 s", "9" * 20])
    def test_anything_else_is_a_mistake_in_use(self, text: str) -> None:
        with pytest.raises(typer.BadParameter):
            parse_duration("--ttl", text)
