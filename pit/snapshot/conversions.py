"""Files whose bytes on disk differ from git's object: line endings, filters, Git LFS, sparse checkouts.

Git's index calls such a file unchanged although the file on disk is a converted form of the object.
Its cached file times are dropped from the scratch index, so `git add` reads the file itself.
"""

import os
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from pit.snapshot.lfs import Kept, keep_pointers, list_pointers
from pit.snapshot.repository import Repository
from pit.snapshot.scratch_repo import LINK, SUBMODULE, Entry, ScratchRepo, parse_entries

SPARSE = b"S"  # tag of `ls-files -v`; a lower-case tag means that the user set `--assume-unchanged`
CONVERTING = (b"text", b"eol", b"crlf", b"ident", b"working-tree-encoding")
OFF = (b"unset", b"unspecified")


@dataclass(frozen=True)
class Adjustments:
    """What was changed in the scratch index before the files are added to it."""

    converted: tuple[Entry, ...] = ()  # unchanged according to git, but converted on disk
    lfs: Kept = field(default_factory=Kept)


def is_unconverted(repo: Repository, tags: bytes) -> bool:
    """Whether the index alone shows that nothing is converted or hidden; quick, and False when in doubt."""
    if repo.setting("core.autocrlf").lower() not in ("", "false") or b".gitattributes\0" in tags:
        return False
    # All files have the tag H. Counting, because splitting 10,000 lines takes longer than git to list them.
    return tags.startswith(b"H ") + tags.count(b"\0H ") == tags.count(b"\0")


def has_attributes(repo: Repository) -> bool:
    """Whether attributes are set at the top, for the user, for the machine or in the repository itself."""
    config_home = os.path.expandvars("$XDG_CONFIG_HOME") if "XDG_CONFIG_HOME" in os.environ else "~/.config"
    of_user = repo.setting("core.attributesfile") or f"{config_home}/git/attributes"
    files = (str(repo.top / ".gitattributes"), of_user, "/etc/gitattributes")
    of_repository = repo.paths.get("info/attributes")
    if repo.setting("attr.tree") or os.environ.get("GIT_ATTR_SOURCE"):
        return True
    return any(os.path.isfile(os.path.expanduser(file)) for file in files) or bool(  # noqa: PTH111, PTH113
        of_repository and of_repository.is_file()
    )


def adjust_index(
    repo: Repository, scratch: ScratchRepo, listing: bytes, embed: Container[str]
) -> Adjustments:
    """Change the scratch index so that `git add` reads each file that git would not store byte for byte."""
    entries = parse_entries(listing)
    hidden = [entry for entry in entries if entry.tag == SPARSE or entry.tag.islower()]
    scratch.remove_entries([entry.path for entry in hidden])
    scratch.add_entries([entry.line for entry in hidden if _exists(repo, entry)])
    files = [entry for entry in entries if entry.mode not in (LINK, SUBMODULE) and _exists(repo, entry)]
    attributes = _attributes(repo, files)
    changed = set(repo.run("diff-files", "--name-only", "-z").split(b"\0")) | {e.path for e in hidden}
    filtered = [entry for entry in files if attributes[entry.path].get(b"filter", b"unset") not in OFF]
    lfs = [entry for entry in filtered if attributes[entry.path][b"filter"] == b"lfs"]
    others = [entry for entry in filtered if entry not in lfs]
    converting = [entry for entry in files if _may_convert(repo, attributes[entry.path])]
    suspects = {entry.path: entry for entry in (*others, *_with_other_size(repo, converting))}
    for entry in lfs:
        suspects.pop(entry.path, None)
    kept = keep_pointers(repo, scratch, list_pointers(repo, lfs), changed, embed)
    scratch.add_entries([entry.line for entry in suspects.values()])
    unchanged = (entry for entry in suspects.values() if entry.path not in changed)
    return Adjustments((*unchanged, *kept.embedded), kept)


def _exists(repo: Repository, entry: Entry) -> bool:
    return os.path.lexists(os.path.join(os.fsencode(repo.top), entry.path))  # noqa: PTH118


def _attributes(repo: Repository, entries: Iterable[Entry]) -> dict[bytes, dict[bytes, bytes]]:
    """The attributes of each path, as the user's git sees them."""
    found: dict[bytes, dict[bytes, bytes]] = {entry.path: {} for entry in entries}
    if found:
        names = b"\0".join(found) + b"\0"
        words = repo.run("check-attr", "-z", "--all", "--stdin", stdin=names).split(b"\0")
        for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=False):
            found[path][name] = value
    return found


def _may_convert(repo: Repository, attributes: dict[bytes, bytes]) -> bool:
    if attributes.get(b"text") == b"unset" and not {b"ident", b"working-tree-encoding"} & attributes.keys():
        return False
    automatic = repo.setting("core.autocrlf").lower() not in ("", "false")
    return automatic or any(attributes.get(name, b"unset") not in OFF for name in CONVERTING)


def _with_other_size(repo: Repository, entries: list[Entry]) -> list[Entry]:
    """The entries whose file has another size than its object: converted, or changed."""
    if not entries:
        return []
    asked = b"\n".join(entry.blob for entry in entries) + b"\n"
    sizes = repo.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split(b"\n")
    return [
        entry for entry, size in zip(entries, sizes, strict=False) if str(_size(repo, entry)).encode() != size
    ]


def _size(repo: Repository, entry: Entry) -> int | None:
    try:
        return os.lstat(os.path.join(os.fsencode(repo.top), entry.path)).st_size  # noqa: PTH118
    except OSError:  # deleted meanwhile
        return None
