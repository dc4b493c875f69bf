"""When output was written, even if it is shipped much later."""

from pathlib import Path

from pit_protocol.system.pieces import Pieces
from pit_worker.process.output import Output


def test_each_part_of_output_has_the_time_it_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "output"
    output = Output(Pieces(str(file), f"{file}."))
    for at, text in ((1.0, "one\n"), (2.0, "two\n"), (3.0, "three\n")):
        with file.open("a") as target:
            target.write(text)
        output.mark(at)
        output.mark(at + 0.5)  # nothing new
    with file.open("a") as target:
        target.write("unseen\n")
    assert output.find_mark(0, now=9.0) == (1.0, 4)
    assert output.find_mark(2, now=9.0) == (1.0, 4)
    assert output.find_mark(4, now=9.0) == (2.0, 8)
    assert output.find_mark(8, now=9.0) == (3.0, 14)
    assert output.find_mark(14, now=9.0) == (9.0, None)


def test_output_from_before_a_restart_gets_the_present_time(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text("old\n")
    assert Output(Pieces(str(file), f"{file}.")).find_mark(0, now=9.0) == (9.0, None)
