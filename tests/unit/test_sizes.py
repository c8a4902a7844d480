from __future__ import annotations

import pytest

from cutwater.sizes import Size, parse_size


@pytest.mark.parametrize(
    ("size", "found"), [(7, 7), ("7", 7), ("2kB", 2048), ("1.5 MB", 3 << 19), ("1GiB", 1 << 30), ("512MB", 512 << 20)]
)
def test_a_size_is_read_as_people_write_it(size: Size, found: int) -> None:
    assert parse_size(size) == found
