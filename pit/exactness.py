"""Where git would not keep a file's bytes as they are: line ends, filters, Git LFS, sparse checkouts.

Git's index says of a file that it is unchanged, although what lies on disk is a converted form of
the object. Such entries are made unknown in the scratch index, so that the file itself is taken.
"""

import os
from collections.abc import Container, Iterable
from dataclasses import dataclass

from pit.large import Pointer, list_pointers, settle
from pit.project import Project
from pit.scratch import LINK, SUBMODULE, Entry, Scratch, parse_entries

SPARSE = b"S"  # tag of `ls-files -v`; a small letter: the user told git to take it for unchanged
CONVERTING = (b"text", b"eol", b"crlf", b"ident", b"working-tree-encoding")
OFF = (b"unset", b"unspecified")


@dataclass(frozen=True)
class Adjusted:
    """What was done to the scratch index before the files are added to it."""

    converted: tuple[Entry, ...] = ()  # unchanged to git, but other bytes than the object
    pointers: tuple[Pointer, ...] = ()  # of large files that stay pointers in the tree


def is_plain(project: Project, tags: bytes) -> bool:
    """Whether the index can be trusted as it is; a cheap look that errs on the careful side."""
    if project.setting("core.autocrlf").lower() not in ("", "false") or b".gitattributes\0" in tags:
        return False
    # All tagged as ordinary; counted, for to take 10,000 lines apart takes longer than git did to list them.
    return tags.startswith(b"H ") + tags.count(b"\0H ") == tags.count(b"\0")


def has_attributes(project: Project) -> bool:
    """Whether attributes come from somewhere else than the project's own tracked files."""
    here = os.path.expandvars("$XDG_CONFIG_HOME") if "XDG_CONFIG_HOME" in os.environ else "~/.config"
    everywhere = project.setting("core.attributesfile") or f"{here}/git/attributes"
    places = (str(project.top / ".gitattributes"), everywhere, "/etc/gitattributes")
    repository = project.paths.get("info/attributes")
    if project.setting("attr.tree") or os.environ.get("GIT_ATTR_SOURCE"):
        return True
    return any(os.path.isfile(os.path.expanduser(place)) for place in places) or bool(  # noqa: PTH111, PTH113
        repository and repository.is_file()
    )


def adjust(project: Project, scratch: Scratch, listing: bytes, embed: Container[str]) -> Adjusted:
    """See that the files themselves are taken, wherever git would take something else."""
    entries = parse_entries(listing)
    hidden = [entry for entry in entries if entry.tag == SPARSE or entry.tag.islower()]
    scratch.forget([entry.path for entry in hidden])
    scratch.enter([entry.line for entry in hidden if _is_there(project, entry)])
    files = [entry for entry in entries if entry.mode not in (LINK, SUBMODULE) and _is_there(project, entry)]
    attributes = _attributes(project, files)
    changed = set(project.run("diff-files", "--name-only", "-z").split(b"\0")) | {e.path for e in hidden}
    filtered = [entry for entry in files if attributes[entry.path].get(b"filter", b"unset") not in OFF]
    large = [entry for entry in filtered if attributes[entry.path][b"filter"] == b"lfs"]
    others = [entry for entry in filtered if entry not in large]
    converting = [entry for entry in files if _may_convert(project, attributes[entry.path])]
    doubtful = {entry.path: entry for entry in (*others, *_of_other_size(project, converting))}
    for entry in large:
        doubtful.pop(entry.path, None)
    pointers = settle(project, scratch, list_pointers(project, large), changed, embed)
    scratch.enter([entry.line for entry in doubtful.values()])
    unchanged = tuple(entry for entry in doubtful.values() if entry.path not in changed)
    return Adjusted(unchanged, pointers)


def _is_there(project: Project, entry: Entry) -> bool:
    return os.path.lexists(os.path.join(os.fsencode(project.top), entry.path))  # noqa: PTH118


def _attributes(project: Project, entries: Iterable[Entry]) -> dict[bytes, dict[bytes, bytes]]:
    """The attributes that are set for each path, as the user's git sees them."""
    found: dict[bytes, dict[bytes, bytes]] = {entry.path: {} for entry in entries}
    if found:
        names = b"\0".join(found) + b"\0"
        words = project.run("check-attr", "-z", "--all", "--stdin", stdin=names).split(b"\0")
        for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=False):
            found[path][name] = value
    return found


def _may_convert(project: Project, attributes: dict[bytes, bytes]) -> bool:
    if attributes.get(b"text") == b"unset" and not {b"ident", b"working-tree-encoding"} & attributes.keys():
        return False
    automatic = project.setting("core.autocrlf").lower() not in ("", "false")
    return automatic or any(attributes.get(name, b"unset") not in OFF for name in CONVERTING)


def _of_other_size(project: Project, entries: list[Entry]) -> list[Entry]:
    """Those whose file is of another size than its object: converted, or changed anyway."""
    if not entries:
        return []
    asked = b"\n".join(entry.blob for entry in entries) + b"\n"
    sizes = project.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split(b"\n")
    return [
        entry
        for entry, size in zip(entries, sizes, strict=False)
        if str(_size(project, entry)).encode() != size
    ]


def _size(project: Project, entry: Entry) -> int | None:
    try:
        return os.lstat(os.path.join(os.fsencode(project.top), entry.path)).st_size  # noqa: PTH118
    except OSError:  # gone meanwhile
        return None
