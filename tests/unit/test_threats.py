"""Every attack and fault has a test or a reason, and the documents say which."""

from pathlib import Path

import pytest

from tests.support.threats.attacks import ATTACKS
from tests.support.threats.attacks import WITHOUT_TEST as ATTACKS_WITHOUT_TEST
from tests.support.threats.entries import Replaced
from tests.support.threats.faults import FAULTS
from tests.support.threats.faults import WITHOUT_TEST as FAULTS_WITHOUT_TEST
from tests.support.threats.markers import read_markers
from tests.support.threats.pages import render_pages

ROOT = Path(__file__).parents[2]
NUMBERS = [f"S{i:02}" for i in range(1, 63)] + [f"F{i:02}" for i in range(1, 45)]
WITHOUT_TEST = ATTACKS_WITHOUT_TEST | FAULTS_WITHOUT_TEST


def test_the_tables_have_all_numbers() -> None:
    assert [*ATTACKS, *FAULTS] == NUMBERS


def test_every_number_has_a_test_or_a_reason() -> None:
    marked = read_markers()
    assert [number for number in NUMBERS if number not in marked and number not in WITHOUT_TEST] == []
    assert [number for number in WITHOUT_TEST if number in marked] == [], "remove their reasons"


def test_no_test_has_an_unknown_number() -> None:
    assert sorted(read_markers().keys() - set(NUMBERS)) == []


def test_a_test_that_replaces_another_exists() -> None:
    replaced = [entry for entry in WITHOUT_TEST.values() if isinstance(entry, Replaced)]
    assert replaced
    for entry in replaced:
        path, _, name = entry.test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), entry


@pytest.mark.parametrize("name", ["security.md", "reliability.md"])
def test_the_page_is_up_to_date(name: str) -> None:
    """`make docs` writes it."""
    page = ROOT / "docs" / name
    assert render_pages()[page] == page.read_text()
