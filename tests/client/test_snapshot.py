"""A snapshot is exactly the work tree, and taking it leaves no trace in the user's repository."""

import hashlib
import os
from pathlib import Path

import pytest

from pit import snapshot as snapshot_module
from pit.project import Project, Remote, check_no_secret
from pit.snapshot import Parcel, Shot, digest
from pit_protocol.problem import Problem
from tests.client.projects import git, rebuild


def shoot(top: Path, tmp_path: Path) -> Shot:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Shot(Project.find(top), scratch)


def bodies(parcel: Parcel) -> tuple[bytes | None, bytes | None]:
    """Diff and pack, found by their hashes as a head would."""
    known = {digest(path): path.read_bytes() for path in parcel.bodies}
    return tuple(known.get(name or "") for name in (parcel.snapshot.diff, parcel.snapshot.pack))  # type: ignore[return-value]


def remote_tree(tmp_path: Path, parcel: Parcel) -> str:
    assert parcel.snapshot.remote == f"file://{tmp_path}/remote.git"
    return rebuild(tmp_path / "remote.git", parcel.snapshot.commit, None, bodies(parcel)[0])


def packed_tree(tmp_path: Path, parcel: Parcel) -> str:
    bare = tmp_path / "empty.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    diff, pack = bodies(parcel)
    return rebuild(bare, parcel.snapshot.commit, pack, diff)


def change_everything(top: Path) -> None:
    """One change of every kind that git knows."""
    (top / "model.py").write_bytes(b"print('caf\xe9')\r\nno newline at the end")
    (top / "staged.txt").write_text("staged\n")
    git(top, "add", "staged.txt")
    (top / "staged.txt").write_text("staged, then changed\n")
    (top / "untracked dir").mkdir()
    (top / "untracked dir" / 'ünï\tcode "q".txt').write_text("untracked\n")
    (top / "data.bin").write_bytes(bytes(reversed(range(256))))
    (top / "new.bin").write_bytes(os.urandom(5000))
    (top / "empty").write_bytes(b"")
    (top / "link").symlink_to("../outside")
    (top / ".compute").chmod(0o755)
    (top / ".gitignore").write_text("ignored.txt\n")
    (top / "ignored.txt").write_text("ignored\n")


def test_every_kind_of_change_is_in_the_diff(checkout: Path, tmp_path: Path) -> None:
    change_everything(checkout)
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert remote_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_the_tree_is_what_git_itself_would_commit(checkout: Path, tmp_path: Path) -> None:
    change_everything(checkout)
    tree = shoot(checkout, tmp_path).tree
    git(checkout, "add", "-A")
    assert tree == git(checkout, "write-tree")


def test_deleted_files_and_changed_types_are_in_the_diff(checkout: Path, tmp_path: Path) -> None:
    (checkout / "model.py").unlink()
    (checkout / "model.py").symlink_to("data.bin")
    (checkout / "data.bin").unlink()
    (checkout / "data.bin").mkdir()
    (checkout / "data.bin" / "part").write_text("x")
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert remote_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_a_clean_pushed_project_has_no_diff(checkout: Path, tmp_path: Path) -> None:
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert parcel.bodies == ()
    assert parcel.snapshot.commit == git(checkout, "rev-parse", "HEAD")
    assert (parcel.snapshot.diff, parcel.snapshot.diff_lines) == (None, 0)
    assert (parcel.snapshot.remote_name, parcel.snapshot.branch) == ("origin", "main")


def test_the_users_index_and_objects_stay_untouched(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "config", "core.splitIndex", "true")
    git(checkout, "update-index", "--split-index")
    change_everything(checkout)
    before = fingerprints(checkout / ".git")
    index_time = (checkout / ".git/index").stat().st_mtime_ns
    shot = shoot(checkout, tmp_path)
    shot.from_remote()
    shot.with_pack()
    assert fingerprints(checkout / ".git") == before
    assert (checkout / ".git/index").stat().st_mtime_ns == index_time


def fingerprints(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(checkout: Path, tmp_path: Path) -> None:
    model, index = checkout / "model.py", checkout / ".git/index"
    model.write_text("print('1')\n")
    moment = model.stat().st_mtime_ns - 100 * 10**9
    os.utime(model, ns=(moment, moment))
    git(checkout, "add", "model.py")
    os.utime(index, ns=(moment, moment))
    with model.open("r+") as file:  # the same inode, size and time as the index has on record
        file.write("print('2')\n")
    os.utime(model, ns=(moment, moment))
    shot = shoot(checkout, tmp_path)
    objects = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path / "scratch/objects")}
    assert git(checkout, "show", f"{shot.tree}:model.py", env=objects) == "print('2')"


def test_unpushed_commits_are_in_the_diff_to_the_newest_pushed_one(checkout: Path, tmp_path: Path) -> None:
    pushed = git(checkout, "rev-parse", "HEAD")
    for name in ("a", "b"):
        (checkout / name).write_text(name)
        git(checkout, "add", "-A")
        git(checkout, "commit", "-q", "-m", name)
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert parcel.snapshot.commit == pushed
    assert parcel.snapshot.diff_lines == 2
    assert remote_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_a_merge_of_pushed_and_unpushed_work_starts_from_the_newest_pushed_commit(
    checkout: Path, tmp_path: Path
) -> None:
    git(checkout, "checkout", "-q", "-b", "side")
    commit(checkout, "side", "2020-01-01T00:00:00")
    git(checkout, "checkout", "-q", "main")
    newest = commit(checkout, "newer", "2030-01-01T00:00:00")
    git(checkout, "push", "-q", "origin", "main")
    git(checkout, "merge", "-q", "--no-edit", "side")
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert parcel.snapshot.commit == newest


def commit(top: Path, name: str, date: str) -> str:
    (top / name).write_text(name)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", name, env={"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date})
    return git(top, "rev-parse", "HEAD")


def test_nothing_pushed_means_nothing_to_fetch(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "update-ref", "-d", "refs/remotes/origin/main")
    assert shoot(checkout, tmp_path).from_remote() is None


def test_a_pack_is_enough_to_rebuild_the_exact_tree(checkout: Path, tmp_path: Path) -> None:
    commit(checkout, "second", "2026-01-01T00:00:00")
    change_everything(checkout)
    parcel = shoot(checkout, tmp_path).with_pack()
    assert parcel.snapshot.remote is None
    assert packed_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_a_pack_holds_one_commit_and_no_history(checkout: Path, tmp_path: Path) -> None:
    (checkout / "model.py").write_text("another\n")
    second = commit(checkout, "second", "2026-01-01T00:00:00")
    packed_tree(tmp_path, shoot(checkout, tmp_path).with_pack())
    objects = git(tmp_path / "empty.git", "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    assert [line.split()[0] for line in objects if " commit " in line] == [second]
    assert len(objects) == 2 + len(git(checkout, "ls-files").splitlines())


def test_a_repository_without_commits_is_one_diff(tmp_path: Path) -> None:
    top = tmp_path / "fresh"
    git(tmp_path, "init", "-q", str(top))
    (top / "a.txt").write_text("a\nb\n")
    shot = shoot(top, tmp_path)
    parcel = shot.with_pack()
    assert shot.from_remote() is None
    assert (parcel.snapshot.commit, parcel.snapshot.pack, parcel.snapshot.diff_lines) == (None, None, 2)
    assert packed_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_an_empty_repository_has_the_empty_tree(tmp_path: Path) -> None:
    top = tmp_path / "fresh"
    git(tmp_path, "init", "-q", str(top))
    parcel = shoot(top, tmp_path).with_pack()
    assert parcel.bodies == ()
    assert packed_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_a_subdirectory_and_a_second_work_tree_give_the_whole_project(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other: tree"
    git(checkout, "worktree", "add", "-q", "-b", "other", str(other))
    (other / "sub").mkdir()
    (other / "new.txt").write_text("new\n")
    parcel = shoot(other / "sub", tmp_path).from_remote()
    assert parcel is not None
    assert parcel.snapshot.branch == "other"
    assert remote_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_a_path_with_a_colon_is_no_list_of_paths(tmp_path: Path) -> None:
    top = tmp_path / 'odd: "name'
    git(tmp_path, "init", "-q", str(top))
    commit(top, "a", "2026-01-01T00:00:00")
    (top / "a").write_text("changed")
    parcel = shoot(top, tmp_path).with_pack()
    assert packed_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_the_users_taste_in_diffs_does_not_matter(checkout: Path, tmp_path: Path) -> None:
    for key, value in {
        "diff.noprefix": "true",
        "diff.external": "/bin/false",
        "color.ui": "always",
        "diff.renames": "copies",
        "core.fsmonitor": "/bin/false",
        "diff.relative": "true",
        "core.autocrlf": "input",
        "core.safecrlf": "true",
    }.items():
        git(checkout, "config", key, value)
    change_everything(checkout)
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert remote_tree(tmp_path, parcel) == parcel.snapshot.tree


def test_no_hook_runs(checkout: Path, tmp_path: Path) -> None:
    change_everything(checkout)
    hook = checkout / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    shoot(checkout, tmp_path)
    assert not (tmp_path / "hooked").exists()


def test_a_detached_head_has_no_branch(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "checkout", "-q", "--detach")
    parcel = shoot(checkout, tmp_path).from_remote()
    assert parcel is not None
    assert parcel.snapshot.branch is None


def test_the_branchs_own_remote_comes_before_origin(checkout: Path) -> None:
    git(checkout, "remote", "add", "lab", "git@lab.example.org:model.git")
    assert Project.find(checkout).get_remote() == Remote("origin", f"file://{checkout.parent}/remote.git")
    git(checkout, "config", "branch.main.remote", "lab")
    assert Project.find(checkout).get_remote() == Remote("lab", "git@lab.example.org:model.git")


def test_a_diff_that_is_too_big_names_the_biggest_files(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "MAX_DIFF", 20_000)
    (checkout / "small.txt").write_text("small\n")
    (checkout / "weights.bin").write_bytes(os.urandom(30_000))
    with pytest.raises(Problem) as caught:
        shoot(checkout, tmp_path).from_remote()
    assert caught.value.code == "diff_too_big"
    assert ".gitignore" in caught.value.hint
    assert caught.value.hint.index("weights.bin") < caught.value.hint.index("small.txt")


def test_a_forgotten_data_set_is_refused_before_git_compresses_it(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "MAX_CHANGED", 10_000)
    (checkout / "data.tar").write_bytes(bytes(20_000))
    with pytest.raises(Problem, match="changed and untracked files"):
        shoot(checkout, tmp_path)
    assert list((tmp_path / "scratch/objects").rglob("*")) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://user:TOPSECRET@host/r.git",
        "https://TOPSECRET@host/r.git",
        "https://host/r.git?private_token=TOPSECRET",
        "ssh://git:TOPSECRET@host/r.git",
    ],
)
def test_a_remote_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Problem) as caught:
        check_no_secret(Remote("origin", url))
    assert "TOPSECRET" not in caught.value.message + caught.value.hint
    assert "--bundle" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["git@host:lab/r.git", "ssh://git@host/r.git", "https://host/r.git", "file:///r"]
)
def test_a_remote_without_a_secret_is_fine(url: str) -> None:
    check_no_secret(Remote("origin", url))


def test_outside_of_a_repository_there_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is not in a git repository"):
        Project.find(tmp_path)


def test_what_git_says_becomes_the_problem(checkout: Path) -> None:
    with pytest.raises(Problem, match=r"`git rev-parse`: .*no-such-thing"):
        Project.find(checkout).run("rev-parse", "no-such-thing")
