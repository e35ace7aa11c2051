"""The page's colours against each other, light and dark: WCAG 2.2, 1.4.3 (texts) and 1.4.11 (controls)."""

import re
from importlib.resources import files

import pytest

CSS = (files("abeyance.console") / "templates" / "page.css").read_text("utf-8")


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


LIGHT = colours(CSS.partition("@media (prefers-color-scheme: dark)")[0])
DARK = LIGHT | colours(CSS.partition("@media (prefers-color-scheme: dark)")[2])


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class TestContrast:
    @pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
    @pytest.mark.parametrize(
        ("front", "back", "least"),
        [
            ("ink", "paper", 7),
            ("soft", "paper", 4.5),
            ("accent", "paper", 4.5),
            ("on-accent", "accent", 4.5),
            ("wrong", "paper", 4.5),
            ("wrong", "wrong-ground", 4.5),
            ("ink", "wrong-ground", 7),
            ("edge", "paper", 3),
        ],
    )
    def test_it_is_enough(self, palette: dict[str, str], front: str, back: str, least: float) -> None:
        assert contrast(palette[front], palette[back]) >= least

    def test_both_palettes_are_whole(self) -> None:
        dark = colours(CSS.partition("@media (prefers-color-scheme: dark)")[2])

        assert LIGHT.keys() == dark.keys()
