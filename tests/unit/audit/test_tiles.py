"""Tiles: their names, and that a tree in tiles is the tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.audit.merkle import inclusion_proof, root_of
from abeyance.audit.tiles import Tile, exists, number_path, parse_path, subtrees_in, tile_root, tiles_of
from tests.unit.audit.trees import numbered, plain_root, subtrees_over


class TestPath:
    @pytest.mark.parametrize(
        ("number", "path"),
        [(0, "000"), (7, "007"), (999, "999"), (1000, "x001/000"), (1234067, "x001/x234/067")],
    )
    def test_numbers_are_written_as_the_specification_does(self, number: int, path: str) -> None:
        assert path == number_path(number)

    @given(st.builds(Tile, st.integers(0, 7), st.integers(0, 10**9), st.integers(min_value=1, max_value=256)))
    def test_a_path_names_its_tile(self, tile: Tile) -> None:
        assert tile == parse_path(tile.path)

    @pytest.mark.parametrize(
        "path",
        [
            "", "0", "0/", "0/0", "0/0000", "0/x000/001/", "8/000", "00/000", "0/000.p/0", "0/000.p/256",
            "0/000.p/257", "0/000.p/", "-1/000", "0/x000/001", "0/000\n", "../0/000", "0/٠٠٠", "entries/000",
        ],
    )  # fmt: skip
    def test_any_other_text_names_none(self, path: str) -> None:
        assert parse_path(path) is None


class TestTilesOf:
    def test_a_tree_of_70000_has_the_tiles_of_the_specification(self) -> None:
        assert [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)] == list(tiles_of(70_000))

    @pytest.mark.parametrize("size", [1, 255, 256, 257, 65_536, 65_537])
    def test_what_a_tree_has_exists_and_what_is_next_does_not(self, size: int) -> None:
        for tile in tiles_of(size):
            assert exists(tile, size)
            assert not exists(tile._replace(number=tile.number + 1, width=1), size)
            assert tile.width == 256 or not exists(tile._replace(width=tile.width + 1), size)

    def test_an_empty_tree_has_none(self) -> None:
        assert [] == list(tiles_of(0))


class TestSubtrees:
    @pytest.mark.parametrize("size", [1, 3, 256, 257, 700, 70_000])
    def test_a_tree_in_tiles_is_the_tree(self, size: int) -> None:
        leaves = numbered(size)
        levels = [b"".join(leaves)]
        while len(levels[-1]) >= 8_192:
            below = levels[-1]
            levels.append(
                b"".join(
                    tile_root(below[start : start + 8_192])
                    for start in range(0, len(below) // 8_192 * 8_192, 8_192)
                )
            )
        asked = []

        def read(level: int, number: int) -> bytes:
            asked.append((level, number))
            return levels[level][number * 8_192 : (number + 1) * 8_192]

        index = size * 2 // 3
        subtrees = subtrees_in(read)
        expected = subtrees_over(leaves)

        assert (plain_root(leaves), inclusion_proof(index, size, expected)) == (
            root_of(size, subtrees),
            inclusion_proof(index, size, subtrees),
        )
        assert len(asked) == len(set(asked)) <= 6
