"""How documents are compared with what commands print."""

from pathlib import Path

import pytest

from tests.support.pages.console_blocks import executed, fits, parse

DOCUMENT = """
```console
$ cat > a <<'EOF'
one
EOF
$ pit run "x" -l
Job number: 1
…
```

<!-- not run: installs something -->
```console
$ pip install x
```
"""


def test_a_block_of_another_user_has_their_home(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "<!-- as: jill -->\n```console\n$ pit status\n```\n\n```console\n$ pit log\n```\n"
    )
    assert [command.text for command in executed(parse(tmp_path / "a.md"))] == [
        "export HOME=$HOMES/jill", "pit status", "export HOME=$HOMES/anna", "pit log",
    ]  # fmt: skip


def test_a_block_has_commands_with_their_output(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(DOCUMENT)
    first, second = parse(tmp_path / "a.md")
    assert [command.text for command in first.commands] == ["cat > a <<'EOF'\none\nEOF", 'pit run "x" -l']
    assert [command.promised for command in first.commands] == [(), ("Job number: 1", "…")]
    assert (first.is_run, second.is_run) == (True, False)


@pytest.mark.parametrize(
    ("promised", "printed", "expected"),
    [
        ("Job number: 1\n…", "Job number: 27\n\nand more\n", True),
        ("[2026-11-17 19:57:55] [worker 0] step", "[2027-01-01 00:00:00] [worker 0] step\n", True),
        ("[2026-11-17 19:57:55] [worker 0] step", "[2027-01-01 00:00:00] [worker 1] step\n", False),
        ("a: 1,055 bytes", "a: 7 bytes\n", True),
        ("a: 1,055 bytes", "b: 7 bytes\n", False),
        ("it ended", "it ended\nand more\n", False),
        ("exited with 3", "exited with 0\n", False),
        ("/home/anna/x", "/tmp/h/x\n", True),
    ],
)
def test_only_what_varies_may_differ(promised: str, printed: str, expected: bool) -> None:
    assert fits(tuple(promised.splitlines()), printed, "/tmp/h") is expected
