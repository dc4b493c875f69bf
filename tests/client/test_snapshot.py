"""What a shot tells of a project: its commit and remote, what is not committed, what stays here."""

import hashlib
import os
import random
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from pit.project import Project, Remote, secret_in
from pit.snapshot import Shot
from pit_protocol.problem import Problem
from pit_protocol.submission import Demand
from tests.client.projects import git, receive
from tests.client.stub_head import StubHead
from tests.states import STATES, commit, contents
from tests.states.making import again


def shoot(top: Path, tmp_path: Path, *include: str) -> Shot:
    return Shot(Project.find(top), tmp_path / "scratch", include)


def test_the_tree_is_what_git_itself_would_commit(checkout: Path, tmp_path: Path) -> None:
    for name in ("untracked", "binary", "links", "executable"):
        STATES[name](checkout)
    tree = shoot(checkout, tmp_path).tree
    git(checkout, "add", "-A")
    assert tree == git(checkout, "write-tree")


def test_a_clean_pushed_project_has_nothing_to_send(checkout: Path, tmp_path: Path) -> None:
    shot = shoot(checkout, tmp_path)
    head = git(checkout, "rev-parse", "HEAD")
    assert shot.objects(Demand(False, head)) == {}
    snapshot = shot.snapshot(Demand(False, head), None)
    assert (snapshot.commit, snapshot.base, snapshot.pack, snapshot.diff_lines) == (head, head, None, 0)
    assert snapshot.committed == snapshot.tree
    assert (snapshot.remote_name, snapshot.branch) == ("origin", "main")


def test_a_tree_that_the_head_has_is_not_sent_again(checkout: Path, tmp_path: Path) -> None:
    (checkout / "new.txt").write_text("new\n")
    shot = shoot(checkout, tmp_path)
    head = git(checkout, "rev-parse", "HEAD")
    assert set(shot.objects(Demand(True, head)).values()) == set()
    assert "new.txt" in shot.objects(Demand(False, head)).values()


def test_unpushed_commits_go_along_with_what_is_not_committed(checkout: Path, tmp_path: Path) -> None:
    pushed = git(checkout, "rev-parse", "HEAD")
    STATES["unpushed"](checkout)
    shot = shoot(checkout, tmp_path)
    assert shot.base
    assert shot.base.commit == pushed
    assert shot.history[0] == git(checkout, "rev-parse", "HEAD")
    assert shot.history[-1] == pushed
    assert shot.history[0] in shot.objects(Demand(False, pushed))
    assert git(checkout, "rev-parse", "HEAD^{tree}") == shot.taken.committed


def test_a_merge_starts_from_the_newest_pushed_commit(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "side")
    dated(checkout, "side", "2020-01-01T00:00:00")
    git(checkout, "checkout", "-q", "main")
    newest = dated(checkout, "newer", "2030-01-01T00:00:00")
    git(checkout, "push", "-q", "origin", "main")
    git(checkout, "merge", "-q", "--no-edit", "side")
    shot = shoot(checkout, tmp_path)
    assert shot.base
    assert shot.base.commit == newest


def dated(top: Path, name: str, date: str) -> str:
    (top / name).write_text(name)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", name, env={"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date})
    return git(top, "rev-parse", "HEAD")


def test_of_several_remotes_the_one_that_has_the_commit_is_named(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "init", "-q", "--bare", "../lab.git")
    git(checkout, "remote", "add", "lab", "../lab.git")
    commit_of(checkout, "second")
    git(checkout, "push", "-q", "lab", "main")
    shot = shoot(checkout, tmp_path)
    assert shot.base
    assert shot.base.remote == Remote("lab", f"file://{checkout.parent}/lab.git")
    assert shot.base.commit == git(checkout, "rev-parse", "HEAD")


def commit_of(top: Path, name: str) -> None:
    (top / name).write_text(name)
    commit(top, name)


def test_the_branchs_own_remote_comes_before_origin(checkout: Path) -> None:
    git(checkout, "remote", "add", "lab", "git@lab.example.org:model.git")
    assert [remote.name for remote in Project.find(checkout).list_remotes()] == ["origin", "lab"]
    git(checkout, "config", "branch.main.remote", "lab")
    assert Project.find(checkout).list_remotes()[0] == Remote("lab", "git@lab.example.org:model.git")


def test_an_empty_repository_has_the_empty_tree(tmp_path: Path) -> None:
    top = tmp_path / "fresh"
    git(tmp_path, "init", "-q", str(top))
    shot = shoot(top, tmp_path)
    assert contents(receive(shot, tmp_path, None)) == {}
    assert (shot.project.head, shot.taken.committed) == (None, None)


@pytest.mark.parametrize("name", ['odd: "name', "#hash", '"quoted"', "new\nline"])
def test_a_project_may_lie_anywhere(name: str, tmp_path: Path) -> None:
    top = tmp_path / name
    git(tmp_path, "init", "-q", str(top))
    commit_of(top, "a")
    (top / "a").write_text("changed")
    assert contents(receive(shoot(top, tmp_path), tmp_path, None)) == contents(top)


def test_the_users_taste_in_git_does_not_matter(checkout: Path, tmp_path: Path) -> None:
    for key, value in {
        "diff.noprefix": "true",
        "diff.external": "/bin/false",
        "color.ui": "always",
        "core.fsmonitor": "/bin/false",
        "diff.relative": "true",
        "core.safecrlf": "true",
        "core.quotePath": "false",
        "log.showSignature": "true",
        "diff.ignoreSubmodules": "all",
    }.items():
        git(checkout, "config", key, value)
    STATES["odd_names"](checkout)
    assert contents(receive(shoot(checkout, tmp_path), tmp_path, None)) == contents(checkout)


def test_no_hook_runs(checkout: Path, tmp_path: Path) -> None:
    STATES["untracked"](checkout)
    hook = checkout / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    shoot(checkout, tmp_path)
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize("name", ["autocrlf", "line_ends", "filtered", "identified", "submodule"])
def test_a_form_on_disk_that_git_makes_itself_is_no_change(name: str, checkout: Path, tmp_path: Path) -> None:
    STATES[name](checkout)
    git(checkout, "stash", "-q", "-u") if git(checkout, "status", "--porcelain") else None
    shot = shoot(checkout, tmp_path)
    assert shot.tree == shot.taken.committed
    assert shot.count_lines() == 0


def test_attributes_count_though_git_ignores_their_file(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".gitignore").write_text(".gitattributes\n")
    (checkout / "sub").mkdir()
    (checkout / "sub" / "file").write_text("one\ntwo\n")
    commit(checkout)
    (checkout / "sub" / ".gitattributes").write_text("* text eol=crlf\n")
    again(checkout)
    assert git(checkout, "status", "--porcelain") == ""
    arrived = contents(receive(shoot(checkout, tmp_path), tmp_path, None))
    assert arrived[b"sub/file"] == ("file", b"one\r\ntwo\r\n")


def test_a_commit_while_the_shot_is_taken_hides_nothing(checkout: Path, tmp_path: Path) -> None:
    project = Project.find(checkout)
    assert project.head == (git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "HEAD^{tree}"))
    commit_of(checkout, "meanwhile")
    shot = Shot(project, tmp_path / "scratch")
    assert contents(receive(shot, tmp_path, None)) == contents(checkout)
    assert shot.differences() == [("A", b"meanwhile")]


def test_what_differs_in_a_submodule_is_told(checkout: Path, tmp_path: Path) -> None:
    STATES["submodule_dirty"](checkout)
    shot = shoot(checkout, tmp_path)
    named = {change.path: (change.letter, change.is_untracked) for change in shot.taken.changes}
    assert named == {b"model.py": ("M", False), b"lib/lib.py": ("M", False), b"lib/untracked": ("A", True)}
    assert shot.count_lines() > 0


SECRETS = ("deep/.env", ".env.local", "id_rsa", "server.pem", "deep/API.KEY")


class TestSecrets:
    def test_untracked_ones_stay_here_and_are_named(self, checkout: Path, tmp_path: Path) -> None:
        """S58"""
        self.write(checkout)
        shot = shoot(checkout, tmp_path)
        arrived = contents(receive(shot, tmp_path, None))
        assert not {name.encode() for name in SECRETS} & arrived.keys()
        assert arrived[b".env.example"] == ("file", b"TOPSECRET")
        assert "left out, for they look like secrets: .env.local, deep/.env, deep/API.KEY" in shot.notes[0]
        assert shot.notes[1] == "1 untracked file goes along (9 bytes)"

    def test_nothing_of_them_is_in_the_pack(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        (checkout / ".env.example").unlink()
        shot = shoot(checkout, tmp_path)
        blob = git(checkout, "hash-object", "id_rsa")
        assert blob not in shot.objects(Demand(False, None))

    def test_tracked_ones_and_those_that_are_named_go_along(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        git(checkout, "add", "-f", "id_rsa")
        arrived = contents(receive(shoot(checkout, tmp_path, "*.pem", ".env"), tmp_path, None))
        assert {b"id_rsa", b"server.pem", b"deep/.env"} <= arrived.keys()
        assert b".env.local" not in arrived

    @pytest.mark.parametrize("name", [".env", "inner/deep/.env", "deep/.env", "inner/*"])
    def test_one_of_a_repository_inside_is_named_by_its_whole_path_too(
        self, checkout: Path, tmp_path: Path, name: str
    ) -> None:
        git(checkout, "init", "--quiet", "inner")
        self.write(checkout / "inner")
        shot = shoot(checkout, tmp_path, name)
        assert contents(receive(shot, tmp_path, None))[b"inner/deep/.env"] == ("file", b"TOPSECRET")
        assert not [note for note in shot.notes if note.startswith("--include")]

    def test_one_that_is_not_there_or_ignored_is_told(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        (checkout / ".gitignore").write_text("*.pem\n")
        notes = shoot(checkout, tmp_path, "*.pem", "deep/.env", "nothing").notes
        assert [note for note in notes if note.startswith("--include")] == [
            "--include *.pem fits no untracked file: it is not there, or git ignores or has it",
            "--include nothing fits no untracked file: it is not there, or git ignores or has it",
        ]

    def write(self, top: Path) -> None:
        (top / "deep").mkdir()
        for name in (*SECRETS, ".env.example"):
            (top / name).write_text("TOPSECRET")


def test_pitignore_keeps_files_here(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".pitignore").write_text("*.ckpt\n/runs/\n")
    (checkout / "runs").mkdir()
    for name in ("a.ckpt", "runs/log", "kept.txt"):
        (checkout / name).write_text(name)
    arrived = contents(receive(shoot(checkout, tmp_path), tmp_path, None))
    assert {b"kept.txt", b".pitignore"} <= arrived.keys()
    assert not {b"a.ckpt", b"runs/log"} & arrived.keys()


def test_a_hook_of_git_that_runs_pit_keeps_its_index(
    connected: StubHead, checkout: Path, pit_env: dict[str, str]
) -> None:
    hook = checkout / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\nexec {sys.executable} -m pit run hook -d true\n")
    hook.chmod(0o755)
    (checkout / "model.py").write_text("not to be committed\n")
    (checkout / ".env").write_text("SECRET=1\n")
    (checkout / "staged.txt").write_text("staged\n")
    git(checkout, "add", "staged.txt")
    git(checkout, "commit", "-q", "-m", "by hook", env=pit_env)
    assert len(connected.submissions) == 1
    assert git(checkout, "show", "--name-only", "--format=", "HEAD") == "staged.txt"
    assert git(checkout, "status", "--porcelain").splitlines() == ["M model.py", "?? .env"]
    git(checkout, "fsck", "--strict")


def test_conflicts_are_told(checkout: Path, tmp_path: Path) -> None:
    STATES["conflict"](checkout)
    assert "conflicts are not resolved in model.py" in shoot(checkout, tmp_path).notes[0]


class TestLargeFiles:
    """Git LFS, by its pointers: git-lfs itself is not asked."""

    CONTENT = b"large " * 1000
    OID = hashlib.sha256(CONTENT).hexdigest()
    POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(CONTENT)}\n"

    @pytest.fixture
    def with_pointer(self, checkout: Path) -> Path:
        """A project whose commit has a pointer, checked out without git-lfs."""
        (checkout / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
        (checkout / "model.bin").write_text(self.POINTER)
        commit(checkout)
        git(checkout, "push", "-q", "origin", "main")
        return checkout

    def test_an_unchanged_one_stays_a_pointer(self, with_pointer: Path, tmp_path: Path) -> None:
        shot = shoot(with_pointer, tmp_path)
        assert [file.oid for file in shot.large] == [self.OID]
        assert shot.tree == git(with_pointer, "rev-parse", "HEAD^{tree}")

    def test_one_with_its_content_in_place_stays_a_pointer(self, with_pointer: Path, tmp_path: Path) -> None:
        (with_pointer / "model.bin").write_bytes(self.CONTENT)
        shot = shoot(with_pointer, tmp_path)
        assert shot.tree == git(with_pointer, "rev-parse", "HEAD^{tree}")

    def test_a_changed_one_travels_itself(self, with_pointer: Path, tmp_path: Path) -> None:
        (with_pointer / "model.bin").write_bytes(b"changed")
        shot = shoot(with_pointer, tmp_path)
        assert shot.large == ()
        assert contents(receive(shot, tmp_path, None)) == contents(with_pointer)

    def test_one_that_the_head_cannot_get_travels_itself(self, with_pointer: Path, tmp_path: Path) -> None:
        (with_pointer / "model.bin").write_bytes(self.CONTENT)
        shot = shoot(with_pointer, tmp_path)
        shot.embed(frozenset([self.OID]))
        assert contents(receive(shot, tmp_path, None)) == contents(with_pointer)

    def test_its_content_may_come_from_the_store_of_git_lfs(self, with_pointer: Path, tmp_path: Path) -> None:
        store = with_pointer / ".git/lfs/objects" / self.OID[:2] / self.OID[2:4]
        store.mkdir(parents=True)
        (store / self.OID).write_bytes(self.CONTENT)
        shot = shoot(with_pointer, tmp_path)
        shot.embed(frozenset([self.OID]))
        assert contents(receive(shot, tmp_path, None))[b"model.bin"] == ("file", self.CONTENT)

    def test_without_any_content_it_is_refused(self, with_pointer: Path, tmp_path: Path) -> None:
        shot = shoot(with_pointer, tmp_path)
        with pytest.raises(Problem, match=r"the content of model\.bin is kept by Git LFS"):
            shot.embed(frozenset([self.OID]))


@pytest.mark.parametrize(
    "url",
    [
        "https://user:TOPSECRET@host/r.git",
        "https://TOPSECRET@host/r.git",
        "https://host/r.git?private_token=TOPSECRET",
        "ssh://git:TOPSECRET@host/r.git",
    ],
)
def test_a_remote_with_a_secret_is_told_without_showing_it(url: str) -> None:
    """S26"""
    assert "has a user or a secret" in secret_in(Remote("origin", url))
    assert "TOPSECRET" not in secret_in(Remote("origin", url))


@pytest.mark.parametrize(
    "url", ["git@host:lab/r.git", "ssh://git@host/r.git", "https://host/r.git", "file:///r"]
)
def test_a_remote_without_a_secret_is_fine(url: str) -> None:
    assert secret_in(Remote("origin", url)) == ""


def test_outside_of_a_repository_there_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is not in a git repository"):
        Project.find(tmp_path)


def test_what_git_says_becomes_the_problem(checkout: Path) -> None:
    with pytest.raises(Problem, match=r"`git rev-parse`: .*no-such-thing"):
        Project.find(checkout).run("rev-parse", "no-such-thing")


NAMES = st.sampled_from(["a", "b", "dir/c", "dir/d", "dir", "e.txt", "link"])
EDITS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.binary(max_size=40)),
    st.tuples(st.sampled_from(["delete", "execute", "symlink", "add", "forget"]), NAMES, st.just(b"")),
    st.tuples(st.sampled_from(["commit", "push", "stash"]), st.just(""), st.just(b"")),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDITS, min_size=1, max_size=10))
def test_whatever_was_edited_arrives(
    edits: list[tuple[str, str, bytes]], checkout: Path, tmp_path: Path
) -> None:
    place = tmp_path / f"{random.SystemRandom().getrandbits(64):x}"
    top = place / "project"
    git(place.parent, "clone", "-q", "remote.git", str(top))
    for verb, name, data in edits:
        edit(top, verb, name, data)
    shot = Shot(Project.find(top), place / "scratch")
    base = shot.base.commit if shot.base else None
    assert contents(receive(shot, place, base)) == contents(top)


def edit(top: Path, verb: str, name: str, data: bytes) -> None:
    """One step of somebody at work; one that makes no sense here is left out."""
    path = top / name
    try:
        if verb == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        elif verb == "delete":
            path.unlink()
        elif verb == "execute":
            path.chmod(0o755)
        elif verb == "symlink":
            os.symlink("a", path)
        elif verb in ("add", "forget"):
            git(top, *(("add", "--", name) if verb == "add" else ("rm", "-q", "--cached", "--", name)))
        elif verb == "commit":
            commit(top)
        elif verb == "push":
            git(top, "push", "-q", "origin", "HEAD")
        else:
            git(top, "stash", "-q", "-u")
    except Exception:  # such as to delete what is not there
        return
