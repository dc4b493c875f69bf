"""Data in and out through the installed `pit`: odd names, many files, and all forms."""

import hashlib
import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clusters.local import PIT, Cluster
from tests.support.terminal import Terminal

MIB = 1024 * 1024
ODD_NAMES = (
    b"with blank",
    b"quo'te\"s",
    b"new\nline",
    "emoji \U0001f40d".encode(),
    b"latin-\xe9",
    b"-rf",
    b"*",
    b"%41?#",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def content(folder: Path) -> dict[str, tuple[str, str]]:
    """Everything below a directory: what it is, and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", "")
        else:
            found[name] = (oct(path.stat().st_mode & 0o777), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def an_odd_tree(folder: Path) -> Path:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in ODD_NAMES:
        (folder / "deep" / os.fsdecode(name)).write_bytes(b"content of " + name)
    (folder / "deep" / "er" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "deep" / "er" / "run.sh").chmod(0o755)
    (folder / "large.bin").write_bytes(random.Random(1).randbytes(9 * MIB))
    (folder / "link").symlink_to("deep/er")
    (folder / "nothing").touch()
    return folder


class TestCommands:
    """One after the other, on one cluster."""

    def test_a_tree_goes_in_and_out_as_it_is(self, shared_cluster: Cluster, place: Path) -> None:
        tree = an_odd_tree(place / "tree")
        shared_cluster.ok("push", "home", "tree", str(tree))
        shared_cluster.ok("pull", "home", "tree", str(place / "back"))
        assert content(place / "back") == content(tree)
        shared_cluster.ok("rm", "home", "tree")

    def test_names_are_shown_escaped_and_told_exactly(self, shared_cluster: Cluster, place: Path) -> None:
        tree = an_odd_tree(place / "odd")
        shared_cluster.ok("push", "home", str(tree))
        shown = shared_cluster.ok("ls", "home", "odd/deep")
        assert "new\\x0aline" in shown and "latin-\\xe9" in shown
        listed = shared_cluster.json("ls", "home:odd/deep")["entries"]
        assert [entry["encoded"] for entry in listed if "encoded" in entry] == ["latin-%E9"]
        for name in ODD_NAMES:
            done = subprocess.run(
                [str(PIT), "cat", "--", "home", b"odd/deep/" + name],
                env=shared_cluster.env,
                capture_output=True,
            )
            assert done.stdout == b"content of " + name
        shared_cluster.ok("rm", "home:odd")

    def test_the_seeds_forms_read_a_job(self, shared_cluster: Cluster, place: Path) -> None:
        number = shared_cluster.run("echo weights > $KEEP_DIR/model.bin; echo other > $KEEP_DIR/x.txt")
        shared_cluster.wait(number)
        assert "model.bin" in shared_cluster.ok("ls", str(number), "keep")
        shared_cluster.ok("cp", str(number), "keep/model.bin", "./", cwd=place)
        assert (place / "model.bin").read_text() == "weights\n"
        assert shared_cluster.ok("cat", f"job:{number}", "keep/model.bin") == "weights\n"
        shared_cluster.ok("pull", str(number), "keep/*.txt", str(place / "texts"))
        assert [path.name for path in (place / "texts").iterdir()] == ["x.txt"]
        refused = shared_cluster.pit("push", str(number), "keep/y", str(place / "model.bin"))
        assert (refused.code, "only the running job may write here" in refused.err) == (1, True)
        assert shared_cluster.pit("rm", str(number), "keep/x.txt").code == 1
        assert shared_cluster.pit("ls", str(number), "keep/*.none").code == 1

    def test_what_is_there_stays_unless_asked(self, shared_cluster: Cluster, place: Path) -> None:
        file = place / "file"
        file.write_text("one")
        shared_cluster.ok("push", "home", "dir/file", str(file))
        file.write_text("two")
        assert "already exists" in shared_cluster.pit("push", "home", "dir/file", str(file)).err
        assert "already exists" in shared_cluster.pit("pull", "home", "dir/file", str(place)).err
        assert file.read_text() == "two"
        shared_cluster.ok("push", "-f", "home", "dir/file", str(file))
        file.write_text("three")
        shared_cluster.ok("pull", "-f", "home", "dir/file", str(place))
        assert file.read_text() == "two"
        shared_cluster.ok("rm", "home", "dir")

    def test_a_copy_lands_where_a_slash_says(self, shared_cluster: Cluster, place: Path) -> None:
        (place / "corpus").mkdir()
        (place / "corpus" / "a").touch()
        for target in (("slash/",), ("plain",), ("plain", "-c"), ()):
            shared_cluster.ok("push", "home", *target[:1], str(place / "corpus"), *target[1:])
        shared_cluster.ok("push", "home", "plain", str(place / "corpus" / "a"), "-f")
        listed = shared_cluster.json("ls", "-R", "home")["entries"]
        names = {entry["name"] for entry in listed if entry["kind"] == "file"}
        assert names == {"slash/corpus/a", "plain/a", "corpus/a"}
        shared_cluster.ok("rm", "home", "slash", "plain", "corpus")

    def test_stdin_and_stdout(self, shared_cluster: Cluster, place: Path) -> None:
        body = random.Random(2).randbytes(9 * MIB + 5)
        environment, command = shared_cluster.env, [str(PIT), "push", "home", "piped", "-", "--json"]
        pushed = subprocess.run(command, input=body, env=environment, capture_output=True, check=True)
        assert json.loads(pushed.stdout)["bytes"] == len(body)
        pulled = subprocess.run(
            [str(PIT), "pull", "home", "piped", "-"], env=environment, capture_output=True, check=True
        )
        assert pulled.stdout == body
        shared_cluster.ok("rm", "home", "piped")

    @pytest.mark.parametrize(
        ("words", "code", "sentence"),
        [
            (("push", "home", "said/", "-"), 2, "home said is a directory: name the file that stdin is to"),
            (("push", "home", "-"), 2, "home is a directory: name the file that stdin is to become"),
            (("pull", "home", "said/*", "-"), 1, "home said/* is a pattern; stdout takes one file"),
            (("cat", "home", "said/*"), 1, "home said/* is a pattern; stdout takes one file"),
            (("pull", "home", "said/word", "none/word"), 1, "none is not a directory here"),
            (
                ("push", "home", "said/", "/dev/null"),
                1,
                "/dev/null is not there, or no file and no directory",
            ),
            (("mount", "99999"), 1, "there is no 99999, or you may not see it\n`pit ls 99999` says more\n"),
            (("restore", "it"), 2, "'it' is not an ID; `pit show trash` lists them"),
            (("download", "1", "-o", "none/job.tar.gz"), 1, "none is not a directory here"),
        ],
    )
    def test_what_cannot_be_is_said(
        self, shared_cluster: Cluster, place: Path, words: tuple[str, ...], code: int, sentence: str
    ) -> None:
        (place / "word").write_text("word")
        shared_cluster.ok("push", "-f", "home", "said/word", str(place / "word"))
        said = shared_cluster.pit(*words)
        assert (said.code, said.out) == (code, "")
        assert said.err.startswith(f"pit: {sentence}")

    def test_a_file_holds_no_others(self, shared_cluster: Cluster, place: Path) -> None:
        (place / "word").write_text("word")
        shared_cluster.ok("push", "-f", "home", "said/word", str(place / "word"))
        for path in ("said/word/below", "said/word/far/below"):
            push = shared_cluster.pit("push", "home", path, str(place / "word"))
            assert (push.code, "said/word is not a directory\nname another place" in push.err) == (1, True), (
                push
            )
        told = shared_cluster.json("cat", "home", "said/word")
        assert told == {"domain": "home", "name": "said/word", "text": "word"}

    def test_the_trash_gives_back(self, shared_cluster: Cluster, place: Path) -> None:
        (place / "precious").write_text("precious")
        shared_cluster.ok("push", "home", str(place / "precious"))
        gone = shared_cluster.json("rm", "home", "precious")
        assert shared_cluster.pit("cat", "home", "precious").code == 1
        assert "precious" in shared_cluster.ok("show", "trash")
        shared_cluster.ok("restore", str(gone["id"]))
        assert shared_cluster.ok("cat", "home:precious") == "precious"
        gone = shared_cluster.json("rm", "home", "precious")
        shared_cluster.ok("push", "home", str(place / "precious"))
        there = shared_cluster.pit("restore", str(gone["id"])).err.splitlines()
        assert there[0].endswith(" precious already exists")
        assert there[1] == "move it away, or remove it, and try again"
        assert "user:" in shared_cluster.ok("show", "usage")
        shared_cluster.ok("rm", "home", "precious")

    def test_a_pattern_removes_what_fits_and_asks_at_a_terminal(
        self, shared_cluster: Cluster, place: Path
    ) -> None:
        for name in ("a.tmp", "b.tmp", "keep.bin", "sub/c.tmp", "d.tmp/inside.tmp", "d.tmp 2.tmp"):
            (place / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "runs" / name).write_text(name)
        shared_cluster.ok("push", "home", str(place / "runs"))
        command = [str(PIT), "rm", "home", "runs/*.tmp"]
        person = Terminal(command, shared_cluster.project.path, shared_cluster.env)
        person.answer("to the trash? [y/N]", "n")
        assert person.end() == 1
        assert (
            "  home runs/a.tmp\n  home runs/b.tmp\n  home runs/d.tmp\n  home runs/d.tmp 2.tmp\nMove these 4"
            in person.shown
        )
        assert "nothing was removed" in person.shown
        gone = shared_cluster.ok("rm", "home", "runs/**/*.tmp", "-f", "--json").splitlines()
        names = [json.loads(line)["name"] for line in gone]
        assert names == ["runs/a.tmp", "runs/b.tmp", "runs/d.tmp", "runs/d.tmp 2.tmp", "runs/sub/c.tmp"]
        left = shared_cluster.json("ls", "home", "runs", "-R")["entries"]
        assert [entry["name"] for entry in left] == ["keep.bin", "sub"]
        shared_cluster.ok("restore", *(str(json.loads(line)["id"]) for line in gone))
        shared_cluster.ok("pull", "home", "runs", str(place / "back"))
        assert content(place / "back") == content(place / "runs")
        nothing = shared_cluster.pit("rm", "home", "runs/*.no")
        assert (nothing.code, "nothing matches home runs/*.no" in nothing.err) == (1, True)
        shared_cluster.ok("rm", "home", "runs")

    def test_what_fits_a_pattern_is_copied_once_or_not_at_all(
        self, shared_cluster: Cluster, place: Path
    ) -> None:
        for name in ("one/x", "two/x", "two/deep/y", "z"):
            (place / "fits" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "fits" / name).write_text(name)
        shared_cluster.ok("push", "home", str(place / "fits"))
        shared_cluster.ok("pull", "home", "fits/**", str(place / "all"))
        assert content(place / "all") == content(place / "fits")
        clash = shared_cluster.pit("pull", "home", "fits/*/x", str(place / "flat"), "-f")
        assert clash.code == 1
        assert f"home fits/one/x and home fits/two/x would both become {place}/flat/x" in clash.err
        assert not (place / "flat").exists()
        (place / "z").write_text("mine")
        there = shared_cluster.pit("pull", "home", "fits/[tz]*", str(place))
        assert (there.code, f"{place}/z already exists" in there.err) == (1, True)
        assert not (place / "two").exists()
        shared_cluster.ok("rm", "home", "fits")

    def test_a_push_that_is_refused_leaves_nothing(self, shared_cluster: Cluster, place: Path) -> None:
        (place / "deep/er").mkdir(parents=True)
        (place / "deep/er/large").write_bytes(b"x" * 3 * MIB)
        me = shared_cluster.json("show", "me")["name"]
        shared_cluster.ok("set", f"user:{me}", "quota=1M")
        try:
            pushes = [
                shared_cluster.pit("push", "home", "refused/", str(place / "deep")),
                shared_cluster.pit("push", "home", "refused/a/b", str(place / "deep/er/large")),
                shared_cluster.pit("sync", str(place / "deep"), "home:refused/c"),
            ]
        finally:
            shared_cluster.ok("set", f"user:{me}", "quota=")
        for push in pushes:
            assert (push.code, "quota of 1.0 MiB, and this needs 3.0 MiB" in push.err) == (1, True), push
        assert not [e for e in shared_cluster.json("ls", "home")["entries"] if e["name"] == "refused"]

    def test_sync_sends_what_changed_and_honours_ignore_files(
        self, shared_cluster: Cluster, place: Path
    ) -> None:
        tree = place / "work"
        (tree / "sub").mkdir(parents=True)
        for name in ("keep.txt", "sub/deep.txt", "cache.o", "sub/secret.env"):
            (tree / name).write_text(name)
        (tree / ".gitignore").write_text("*.o\n")
        (tree / ".pitignore").write_text("*.env\n")
        first = shared_cluster.json("sync", str(tree), "home:work")
        assert first["sent"] == [".gitignore", ".pitignore", "keep.txt", "sub/deep.txt"]
        assert shared_cluster.json("sync", str(tree), "home:work")["sent"] == []
        (tree / "keep.txt").write_text("another text")
        (tree / "sub" / "deep.txt").unlink()
        planned = shared_cluster.json("sync", str(tree), "home:work", "--delete", "--dry-run")
        assert (planned["sent"], planned["removed"]) == (["keep.txt"], ["sub"])
        shared_cluster.ok("sync", str(tree), "home:work", "--delete")
        names = [entry["name"] for entry in shared_cluster.json("ls", "-R", "home", "work")["entries"]]
        assert names == [".gitignore", ".pitignore", "keep.txt"]
        odd = os.fsdecode(b"new\nline \xe9")
        (tree / odd).touch()
        assert shared_cluster.json("sync", str(tree), "home:work")["sent"] == [odd]
        os.utime(tree / "keep.txt", (1, 1))
        assert shared_cluster.json("sync", "--checksum", str(tree), "home:work")["sent"] == []
        shared_cluster.ok("rm", "home", "work")

    def test_twenty_thousand_small_files(self, shared_cluster: Cluster, place: Path) -> None:
        tree = place / "many"
        for number in range(200):
            (tree / f"d{number}").mkdir(parents=True)
            for index in range(100):
                (tree / f"d{number}" / f"f{index}").write_bytes(b"%d %d" % (number, index))
        shared_cluster.ok("push", "home", str(tree))
        shared_cluster.ok("pull", "home", "many", str(place / "back"))
        same = subprocess.run(["diff", "-r", str(tree), str(place / "back")], capture_output=True)
        assert same.stdout == b""
        assert len(shared_cluster.json("ls", "-R", "home", "many")["entries"]) == 20_200
        shared_cluster.ok("rm", "home", "many")

    def test_two_clients_at_once(self, shared_cluster: Cluster, place: Path) -> None:
        bodies = {name: random.Random(name).randbytes(20 * MIB) for name in ("one", "two")}
        for name, body in bodies.items():
            (place / name).write_bytes(body)
        with ThreadPoolExecutor(2) as pool:
            list(
                pool.map(
                    lambda name: shared_cluster.ok("push", "home", "both/same", str(place / name), "-f"),
                    bodies,
                )
            )
        shared_cluster.ok("pull", "home", "both/same", str(place / "back"))
        assert (place / "back").read_bytes() in bodies.values()
        shared_cluster.ok("rm", "home", "both")
