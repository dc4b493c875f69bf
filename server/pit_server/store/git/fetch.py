"""Fetching single commits from a remote, without their history."""

from dataclasses import replace

from pit_protocol.problem import Problem
from pit_server.cancellation import Cancelled
from pit_server.store.git.command import Access, GitFailed
from pit_server.store.git.repository import COMMITS, Repository
from pit_server.store.remotes.remote import Remote

BRANCHES = "refs/pit/branches/"


def answers(repository: Repository, remote: Remote, access: Access, timeout_s: float) -> bool:
    """Whether the remote answers."""
    git = replace(repository.git, access=access, timeout_s=timeout_s)
    try:
        git.run("ls-remote", "--quiet", "--", remote.text, "HEAD")
    except GitFailed:
        return False
    return True


def find_ref(
    repository: Repository, remote: Remote, name: str, access: Access, timeout_s: float
) -> str | None:
    """The commit of a branch or tag, or of the default branch; None if there is none."""
    wanted = [f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}"] if name else ["HEAD"]
    git = replace(repository.git, access=access, timeout_s=timeout_s)
    try:
        lines = git.run("ls-remote", "--quiet", "--", remote.text, *wanted).splitlines()
    except GitFailed as error:
        raise unreachable(remote, error) from error
    found = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
    return next((found[ref] for ref in wanted if ref in found), None)


def fetch(repository: Repository, remote: Remote, commit: str, access: Access) -> None:
    """Fetch the commit with its whole tree, or raise a Problem; the caller holds the lock."""
    if repository.marked(commits=[commit]):
        return
    git = replace(repository.git, access=access)
    git.say(f"fetching {commit[:12]} from {remote.text}")
    wanted = f"{commit}:{COMMITS}{commit}"
    try:
        git.run("fetch", "--quiet", "--no-tags", "--depth=1", "--", remote.text, wanted)
    except Cancelled:
        repository.drop_partial_packs()
        raise
    except GitFailed as error:
        repository.drop_partial_packs()
        if "not our ref" not in str(error) and "unadvertised object" not in str(error):
            raise unreachable(remote, error) from error
        _fetch_branches(replace(repository, git=git), remote, commit)


def _fetch_branches(repository: Repository, remote: Remote, commit: str) -> None:
    """Fetch all branches, for servers that refuse single commits."""
    wanted = f"+refs/heads/*:{BRANCHES}{remote.key}/*"
    try:
        repository.git.run("fetch", "--quiet", "--no-tags", "--", remote.text, wanted)
    except GitFailed as error:
        raise unreachable(remote, error) from error
    if not repository.git.has(f"{commit}^{{tree}}"):
        raise Problem(
            "commit_vanished",
            f"{remote.text} no longer has commit {commit}",
            "push it again, or `pit run --bundle` sends the code along",
        )
    repository.mark(commits=[commit])


def unreachable(remote: Remote, error: GitFailed) -> Problem:
    return Problem(
        "remote_unreachable",
        f"the head cannot fetch from {remote.text}: {cause(error)}",
        "`pit run --bundle` sends the code along",
    )


def cause(error: GitFailed) -> str:
    """The first error in git's output; the others are mostly its consequences."""
    lines = str(error).strip().splitlines()
    # ssh prints its error before git's, on its own line.
    said = [line for line in lines if line.startswith(("error: ", "fatal: ", "ssh: "))]
    return (said or lines)[0].removeprefix("fatal: ").removeprefix("error: ").rstrip(".")
