"""A branch, tag or commit of a remote as a snapshot, for jobs that are submitted without a project."""

import re

from pit_protocol.answers.snapshots import RemoteSnapshot
from pit_protocol.problem import Problem
from pit_server.services.snapshots.sources import Sources
from pit_server.store.git import fetch
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.reach import reach
from pit_server.store.remotes.remote import Remote

REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,199}")
COMMIT = re.compile(r"[0-9a-f]{40}")
REACH_S = 10.0  # for the remote to name its refs


def find(
    sources: Sources, user_id: int, place: Remote, ref: str, credential: Credential | None
) -> RemoteSnapshot:
    """Fetch what the ref names; empty: the remote's default branch. The files are as git stores them."""
    if ref and (not REF.fullmatch(ref) or ".." in ref):
        raise Problem("bad_ref", f"{ref[:40]!r} is not a branch, tag or commit", status=422)
    store = sources.store(user_id)
    store.create()
    commit = ref
    if not COMMIT.fullmatch(ref):
        with reach(place, sources.settings, credential) as access:
            found = fetch.find_ref(store, place, ref, access, REACH_S)
        if found is None:
            named = f"{place.text} has no branch or tag {ref}" if ref else f"{place.text} has no commits"
            raise Problem("no_such_ref", named, "`git ls-remote URL` lists them", status=422)
        commit = found
    sources.fetch_commit(user_id, place, commit, credential)
    tree = store.git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
    return RemoteSnapshot(
        tree=tree,
        commit=commit,
        committed=tree,
        base=commit,
        remote=place.text,
        branch=None if commit == ref else ref or None,
    )
