"""When a stretch of output was written, also where it is shipped much later."""

from pathlib import Path

from pit_worker.output import Output


def test_each_stretch_has_the_time_it_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "output"
    output = Output(file)
    for at, text in ((1.0, "one\n"), (2.0, "two\n"), (3.0, "three\n")):
        with file.open("a") as target:
            target.write(text)
        output.mark(at)
        output.mark(at + 0.5)  # nothing new
    with file.open("a") as target:
        target.write("unseen\n")
    assert output.stretch(0, now=9.0) == (1.0, 4)
    assert output.stretch(2, now=9.0) == (1.0, 4)
    assert output.stretch(4, now=9.0) == (2.0, 8)
    assert output.stretch(8, now=9.0) == (3.0, 14)
    assert output.stretch(14, now=9.0) == (9.0, None)


def test_what_an_earlier_worker_saw_has_no_time_but_now(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text("old\n")
    assert Output(file).stretch(0, now=9.0) == (9.0, None)
