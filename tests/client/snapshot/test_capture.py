"""A snapshot's commit, remote, uncommitted changes and left-out files."""

import hashlib
import os
import random
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.plain_directory import PlainDirectory
from pit.snapshot.repository import Remote, Repository, secret_in
from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.problem import Problem
from tests.project_states import STATES, commit, contents
from tests.project_states.base import checkout_again
from tests.support.git_projects import git, receive
from tests.support.stubs.head import StubHead


def take_snapshot(top: Path, tmp_path: Path, *include: str) -> WorktreeSnapshot:
    return WorktreeSnapshot(Repository.find(top), tmp_path / "scratch", include)


def test_the_tree_is_what_git_would_commit(checkout: Path, tmp_path: Path) -> None:
    for name in ("untracked", "binary", "links", "executable"):
        STATES[name](checkout)
    tree = take_snapshot(checkout, tmp_path).tree
    git(checkout, "add", "-A")
    assert tree == git(checkout, "write-tree")


def test_a_clean_pushed_project_has_nothing_to_send(checkout: Path, tmp_path: Path) -> None:
    worktree = take_snapshot(checkout, tmp_path)
    head = git(checkout, "rev-parse", "HEAD")
    assert worktree.objects(OfferAnswer(False, head)) == {}
    snapshot = worktree.snapshot(OfferAnswer(False, head), None)
    assert (snapshot.commit, snapshot.base, snapshot.pack, snapshot.diff_lines) == (head, head, None, 0)
    assert snapshot.committed == snapshot.tree
    assert (snapshot.remote_name, snapshot.branch) == ("origin", "main")


def test_a_tree_that_the_head_has_is_not_sent_again(checkout: Path, tmp_path: Path) -> None:
    (checkout / "new.txt").write_text("new\n")
    worktree = take_snapshot(checkout, tmp_path)
    head = git(checkout, "rev-parse", "HEAD")
    assert set(worktree.objects(OfferAnswer(True, head)).values()) == set()
    assert "new.txt" in worktree.objects(OfferAnswer(False, head)).values()


def test_unpushed_commits_are_sent_with_uncommitted_changes(checkout: Path, tmp_path: Path) -> None:
    pushed = git(checkout, "rev-parse", "HEAD")
    STATES["unpushed"](checkout)
    worktree = take_snapshot(checkout, tmp_path)
    assert worktree.base
    assert worktree.base.commit == pushed
    assert worktree.history[0] == git(checkout, "rev-parse", "HEAD")
    assert worktree.history[-1] == pushed
    assert worktree.history[0] in worktree.objects(OfferAnswer(False, pushed))
    assert git(checkout, "rev-parse", "HEAD^{tree}") == worktree.captured.committed


def test_a_merge_starts_from_the_newest_pushed_commit(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "side")
    commit_dated(checkout, "side", "2020-01-01T00:00:00")
    git(checkout, "checkout", "-q", "main")
    newest = commit_dated(checkout, "newer", "2030-01-01T00:00:00")
    git(checkout, "push", "-q", "origin", "main")
    git(checkout, "merge", "-q", "--no-edit", "side")
    worktree = take_snapshot(checkout, tmp_path)
    assert worktree.base
    assert worktree.base.commit == newest


def commit_dated(top: Path, name: str, date: str) -> str:
    (top / name).write_text(name)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", name, env={"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date})
    return git(top, "rev-parse", "HEAD")


def test_the_remote_that_has_the_commit_is_chosen(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "init", "-q", "--bare", "../lab.git")
    git(checkout, "remote", "add", "lab", "../lab.git")
    commit_file(checkout, "second")
    git(checkout, "push", "-q", "lab", "main")
    worktree = take_snapshot(checkout, tmp_path)
    assert worktree.base
    assert worktree.base.remote == Remote("lab", f"file://{checkout.parent}/lab.git")
    assert worktree.base.commit == git(checkout, "rev-parse", "HEAD")


def commit_file(top: Path, name: str) -> None:
    (top / name).write_text(name)
    commit(top, name)


def test_the_remote_of_the_branch_comes_before_origin(checkout: Path) -> None:
    git(checkout, "remote", "add", "lab", "git@lab.example.org:model.git")
    assert [remote.name for remote in Repository.find(checkout).list_remotes()] == ["origin", "lab"]
    git(checkout, "config", "branch.main.remote", "lab")
    assert Repository.find(checkout).list_remotes()[0] == Remote("lab", "git@lab.example.org:model.git")


def test_an_empty_repository_has_the_empty_tree(tmp_path: Path) -> None:
    top = tmp_path / "fresh"
    git(tmp_path, "init", "-q", str(top))
    worktree = take_snapshot(top, tmp_path)
    assert contents(receive(worktree, tmp_path, None)) == {}
    assert (worktree.repo.head, worktree.captured.committed) == (None, None)


@pytest.mark.parametrize("name", ['odd: "name', "#hash", '"quoted"', "new\nline"])
def test_the_path_of_a_project_may_have_any_characters(name: str, tmp_path: Path) -> None:
    top = tmp_path / name
    git(tmp_path, "init", "-q", str(top))
    commit_file(top, "a")
    (top / "a").write_text("changed")
    assert contents(receive(take_snapshot(top, tmp_path), tmp_path, None)) == contents(top)


def test_the_users_git_settings_do_not_matter(checkout: Path, tmp_path: Path) -> None:
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
    assert contents(receive(take_snapshot(checkout, tmp_path), tmp_path, None)) == contents(checkout)


def test_no_hook_runs(checkout: Path, tmp_path: Path) -> None:
    STATES["untracked"](checkout)
    hook = checkout / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    take_snapshot(checkout, tmp_path)
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize("name", ["autocrlf", "line_endings", "filtered", "ident_keyword", "submodule"])
def test_a_conversion_by_git_is_not_a_change(name: str, checkout: Path, tmp_path: Path) -> None:
    STATES[name](checkout)
    git(checkout, "stash", "-q", "-u") if git(checkout, "status", "--porcelain") else None
    worktree = take_snapshot(checkout, tmp_path)
    assert worktree.tree == worktree.captured.committed
    assert worktree.count_lines() == 0


def test_an_ignored_attributes_file_still_applies(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".gitignore").write_text(".gitattributes\n")
    (checkout / "sub").mkdir()
    (checkout / "sub" / "file").write_text("one\ntwo\n")
    commit(checkout)
    (checkout / "sub" / ".gitattributes").write_text("* text eol=crlf\n")
    checkout_again(checkout)
    assert git(checkout, "status", "--porcelain") == ""
    arrived = contents(receive(take_snapshot(checkout, tmp_path), tmp_path, None))
    assert arrived[b"sub/file"] == ("file", b"one\r\ntwo\r\n")


def test_a_commit_during_the_capture_hides_nothing(checkout: Path, tmp_path: Path) -> None:
    project = Repository.find(checkout)
    assert project.head == (git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "HEAD^{tree}"))
    commit_file(checkout, "meanwhile")
    worktree = WorktreeSnapshot(project, tmp_path / "scratch")
    assert contents(receive(worktree, tmp_path, None)) == contents(checkout)
    assert worktree.differences() == [("A", b"meanwhile")]


def test_changes_in_a_submodule_are_listed(checkout: Path, tmp_path: Path) -> None:
    STATES["submodule_dirty"](checkout)
    worktree = take_snapshot(checkout, tmp_path)
    named = {change.path: (change.letter, change.is_untracked) for change in worktree.captured.changes}
    assert named == {b"model.py": ("M", False), b"lib/lib.py": ("M", False), b"lib/untracked": ("A", True)}
    assert worktree.count_lines() > 0


SECRETS = ("deep/.env", ".env.local", "id_rsa", "server.pem", "deep/API.KEY")


class TestSecrets:
    @pytest.mark.threat("S58")
    def test_untracked_secrets_are_left_out_and_listed(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        worktree = take_snapshot(checkout, tmp_path)
        arrived = contents(receive(worktree, tmp_path, None))
        assert not {name.encode() for name in SECRETS} & arrived.keys()
        assert arrived[b".env.example"] == ("file", b"TOPSECRET")
        assert (
            "left out because they look like secrets: .env.local, deep/.env, deep/API.KEY"
            in worktree.notes[0]
        )
        assert worktree.notes[1] == "including 1 untracked file (9 bytes)"

    @pytest.mark.threat("S58")
    def test_left_out_secrets_are_not_in_the_pack(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        (checkout / ".env.example").unlink()
        worktree = take_snapshot(checkout, tmp_path)
        blob = git(checkout, "hash-object", "id_rsa")
        assert blob not in worktree.objects(OfferAnswer(False, None))

    @pytest.mark.threat("S58")
    def test_tracked_and_included_secrets_are_sent(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        git(checkout, "add", "-f", "id_rsa")
        arrived = contents(receive(take_snapshot(checkout, tmp_path, "*.pem", ".env"), tmp_path, None))
        assert {b"id_rsa", b"server.pem", b"deep/.env"} <= arrived.keys()
        assert b".env.local" not in arrived

    @pytest.mark.parametrize("name", [".env", "inner/deep/.env", "deep/.env", "inner/*"])
    def test_a_secret_in_a_nested_repository_can_be_included_by_either_path(
        self, checkout: Path, tmp_path: Path, name: str
    ) -> None:
        git(checkout, "init", "--quiet", "inner")
        self.write(checkout / "inner")
        worktree = take_snapshot(checkout, tmp_path, name)
        assert contents(receive(worktree, tmp_path, None))[b"inner/deep/.env"] == ("file", b"TOPSECRET")
        assert not [note for note in worktree.notes if note.startswith("--include")]

    def test_an_include_without_a_match_is_reported(self, checkout: Path, tmp_path: Path) -> None:
        self.write(checkout)
        (checkout / ".gitignore").write_text("*.pem\n")
        notes = take_snapshot(checkout, tmp_path, "*.pem", "deep/.env", "nothing").notes
        assert [note for note in notes if note.startswith("--include")] == [
            "--include *.pem matches no untracked file: it does not exist, is ignored or is tracked",
            "--include nothing matches no untracked file: it does not exist, is ignored or is tracked",
        ]

    def write(self, top: Path) -> None:
        (top / "deep").mkdir()
        for name in (*SECRETS, ".env.example"):
            (top / name).write_text("TOPSECRET")


def test_files_in_pitignore_are_not_sent(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".pitignore").write_text("*.ckpt\n/runs/\n")
    (checkout / "runs").mkdir()
    for name in ("a.ckpt", "runs/log", "kept.txt"):
        (checkout / name).write_text(name)
    arrived = contents(receive(take_snapshot(checkout, tmp_path), tmp_path, None))
    assert {b"kept.txt", b".pitignore"} <= arrived.keys()
    assert not {b"a.ckpt", b"runs/log"} & arrived.keys()


def test_pit_in_a_git_hook_does_not_change_the_index(
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


def test_conflicts_are_reported(checkout: Path, tmp_path: Path) -> None:
    STATES["conflict"](checkout)
    assert "unresolved conflicts in model.py" in take_snapshot(checkout, tmp_path).notes[0]


def test_submodules_that_are_not_checked_out_are_mentioned(checkout: Path, tmp_path: Path) -> None:
    top = STATES["submodule_not_checked_out"](checkout)
    assert top
    assert take_snapshot(top, tmp_path).notes == [
        "submodules not checked out arrive empty: lib; `git submodule update --init` gets them"
    ]


def test_before_the_first_commit_every_line_counts(checkout: Path, tmp_path: Path) -> None:
    top = tmp_path / "new"
    top.mkdir()
    git(top, "init", "-q")
    (top / "a").write_text("one\ntwo\n")
    (top / "b").write_text("three\n")
    git(top, "add", "a")
    assert take_snapshot(top, tmp_path).count_lines() == 3


class TestLfs:
    """Git LFS pointers; git-lfs itself is not needed."""

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

    def test_a_pointer_on_disk_arrives_as_a_pointer_with_a_note(
        self, with_pointer: Path, tmp_path: Path
    ) -> None:
        worktree = take_snapshot(with_pointer, tmp_path)
        assert worktree.lfs_files == ()
        assert worktree.snapshot(OfferAnswer(False, None), None).keeps_pointers
        assert worktree.tree == git(with_pointer, "rev-parse", "HEAD^{tree}")
        assert worktree.notes == [
            "1 Git LFS file is a pointer here, and arrives as one: model.bin; "
            "`git lfs pull` downloads the content"
        ]

    def test_a_plain_directory_keeps_its_pointers_with_a_note(
        self, with_pointer: Path, tmp_path: Path
    ) -> None:
        worktree = WorktreeSnapshot(PlainDirectory(with_pointer), tmp_path / "scratch")
        assert worktree.snapshot(OfferAnswer(False, None), None).keeps_pointers
        assert worktree.notes[0].startswith("1 Git LFS file is a pointer here")

    @pytest.mark.parametrize("name", ["model.bin", "new.bin"])
    def test_beside_a_pointer_on_disk_content_is_sent(
        self, with_pointer: Path, tmp_path: Path, name: str
    ) -> None:
        (with_pointer / "other.bin").write_text(self.POINTER)
        commit(with_pointer)
        for each in ("model.bin", "other.bin"):
            (with_pointer / each).write_bytes(self.CONTENT)
        (with_pointer / name).write_text(self.POINTER.replace(self.OID, "0" * 64))
        worktree = take_snapshot(with_pointer, tmp_path)
        assert worktree.lfs_files == ()
        assert worktree.snapshot(OfferAnswer(False, None), None).keeps_pointers
        assert contents(receive(worktree, tmp_path, None)) == contents(with_pointer)

    def test_an_unchanged_file_with_its_content_stays_a_pointer(
        self, with_pointer: Path, tmp_path: Path
    ) -> None:
        (with_pointer / "model.bin").write_bytes(self.CONTENT)
        worktree = take_snapshot(with_pointer, tmp_path)
        assert worktree.tree == git(with_pointer, "rev-parse", "HEAD^{tree}")
        assert [file.oid for file in worktree.lfs_files] == [self.OID]
        assert not worktree.snapshot(OfferAnswer(False, None), None).keeps_pointers

    def test_a_changed_file_is_sent(self, with_pointer: Path, tmp_path: Path) -> None:
        (with_pointer / "model.bin").write_bytes(b"changed")
        worktree = take_snapshot(with_pointer, tmp_path)
        assert worktree.lfs_files == ()
        assert contents(receive(worktree, tmp_path, None)) == contents(with_pointer)

    def test_a_file_that_the_head_cannot_download_is_sent(self, with_pointer: Path, tmp_path: Path) -> None:
        (with_pointer / "model.bin").write_bytes(self.CONTENT)
        worktree = take_snapshot(with_pointer, tmp_path)
        worktree.embed(frozenset([self.OID]))
        assert worktree.count_lines() == 0
        assert contents(receive(worktree, tmp_path, None)) == contents(with_pointer)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:TOPSECRET@host/r.git",
        "https://TOPSECRET@host/r.git",
        "https://host/r.git?private_token=TOPSECRET",
        "ssh://git:TOPSECRET@host/r.git",
    ],
)
def test_a_secret_in_a_remote_url_is_reported_but_not_shown(url: str) -> None:
    assert "contains a user name or a secret" in secret_in(Remote("origin", url))
    assert "TOPSECRET" not in secret_in(Remote("origin", url))


@pytest.mark.parametrize(
    "url", ["git@host:lab/r.git", "ssh://git@host/r.git", "https://host/r.git", "file:///r"]
)
def test_a_remote_url_without_a_secret_is_accepted(url: str) -> None:
    assert secret_in(Remote("origin", url)) == ""


def test_a_directory_outside_of_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is not in a git repository"):
        Repository.find(tmp_path)


def test_an_error_of_git_becomes_a_problem(checkout: Path) -> None:
    with pytest.raises(Problem, match=r"`git rev-parse`: .*no-such-thing"):
        Repository.find(checkout).run("rev-parse", "no-such-thing")


NAMES = st.sampled_from(["a", "b", "dir/c", "dir/d", "dir", "e.txt", "link"])
EDITS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.binary(max_size=40)),
    st.tuples(st.sampled_from(["delete", "execute", "symlink", "add", "forget"]), NAMES, st.just(b"")),
    st.tuples(st.sampled_from(["commit", "push", "stash"]), st.just(""), st.just(b"")),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDITS, min_size=1, max_size=10))
def test_every_edit_arrives(edits: list[tuple[str, str, bytes]], checkout: Path, tmp_path: Path) -> None:
    place = tmp_path / f"{random.SystemRandom().getrandbits(64):x}"
    top = place / "project"
    git(place.parent, "clone", "-q", "remote.git", str(top))
    for verb, name, data in edits:
        edit(top, verb, name, data)
    worktree = WorktreeSnapshot(Repository.find(top), place / "scratch")
    base = worktree.base.commit if worktree.base else None
    assert contents(receive(worktree, place, base)) == contents(top)


def edit(top: Path, verb: str, name: str, data: bytes) -> None:
    """Apply one edit; skip one that is impossible here."""
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
    except Exception:  # such as deleting a file that does not exist
        return
