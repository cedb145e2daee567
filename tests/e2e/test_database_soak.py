"""The long counts of what databases must stand."""

from pathlib import Path

import pytest

from tests.unit.test_database_files import damaged_starts, together


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_five_hundred_starts_on_damaged_databases_succeed(tmp_path: Path) -> None:
    await damaged_starts(tmp_path, 500, 2032)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_eight_starts_at_once_and_twenty_thousand_rows(tmp_path: Path) -> None:
    for number in range(50):
        together(tmp_path / str(number) / "history.sqlite", 8, 1)
    together(tmp_path / "history.sqlite", 4, 1000)
