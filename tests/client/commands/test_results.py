"""`pit results`: a table that can be sorted, CSV, JSON."""

from pit.views import results
from pit_protocol.answers.jobs import ArrayElement


def an_element(index: int, **found: object) -> ArrayElement:
    return ArrayElement(index, "ended", "succeeded", "", 0.0, {"lr": f"1e-{index}"}, found)


def test_the_smallest_comes_first_and_is_marked() -> None:
    some = [an_element(0), an_element(1, loss=0.5), an_element(2, loss=-2), an_element(3, loss="nan?")]
    names = results.list_names(some)
    assert names == ["lr", "loss"]
    ordered = results.sort_elements(some, "loss", reverse=False)
    assert [element.index for element in ordered] == [2, 1, 3, 0]
    section = results.section(190, ordered, names, "loss")
    assert section.rows[0] == ("*", "190.2", "SUC", "1e-2", "-2")
    assert section.rows[-1] == ("", "190.0", "SUC", "1e-0", "-")
    reverse = results.sort_elements(some, "lr", reverse=True)
    assert [element.index for element in reverse] == [0, 1, 2, 3]


def test_csv_has_a_line_for_each_element() -> None:
    some = [an_element(1, loss=0.5, note='a, "b"'), an_element(2)]
    assert results.csv_text(some, ["lr", "loss", "note"]).splitlines() == [
        "index,state,lr,loss,note",
        '1,succeeded,1e-1,0.5,"a, ""b"""',
        "2,succeeded,1e-2,,",
    ]
