"""Which writer is ended when a disk runs out of space."""

from pit_protocol.system.largest_writer import WriterWatch


def test_the_one_that_has_grown_since_space_got_low_is_ended() -> None:
    watch = WriterWatch[str]()
    sizes = {"old and large": 900, "runaway": 10, "quiet": 50}
    assert watch.look(300, 100, lambda: sizes) is None
    assert watch.look(150, 100, lambda: sizes) is None  # noted
    sizes = {**sizes, "runaway": 100, "quiet": 51}
    assert watch.look(99, 100, lambda: sizes) == "runaway"
    sizes = {"old and large": 900, "quiet": 51, "late": 60}
    assert watch.look(50, 100, lambda: sizes) == "late"


def test_where_nobody_has_grown_it_is_the_largest() -> None:
    assert WriterWatch[str]().look(0, 100, lambda: {"large": 900, "small": 10}) == "large"
    assert WriterWatch[str]().look(0, 100, lambda: {"nothing": 0}) is None
    assert WriterWatch[str]().look(0, 100, dict) is None


def test_once_there_is_space_again_everything_is_forgotten() -> None:
    watch = WriterWatch[str]()
    watch.look(150, 100, lambda: {"a": 10, "b": 10})
    watch.look(500, 100, dict)
    watch.look(150, 100, lambda: {"a": 500, "b": 10})
    assert watch.look(50, 100, lambda: {"a": 500, "b": 20}) == "b"
