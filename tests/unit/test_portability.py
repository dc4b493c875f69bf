"""The client runs on Linux and macOS: Linux-only calls stay in `pit up`, `pit down` and `pit mount`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit.local.platform_check import require_linux
from pit_protocol.problem import Problem

ROOT = Path(__file__).parents[2]
PACKAGES = {"pit": ROOT / "pit", "pit_protocol": ROOT / "protocol/pit_protocol"} | {
    "pit_grammar": ROOT / "grammar/pit_grammar"
}
LINUX_PARTS = ("pit.local", "pit.transfer.webdav_mount")

LINUX_MODULES = re.compile(r"(ctypes|inotify\w*|pyinotify|prctl|pyroute2|systemd)(\..*)?")
LINUX_NAMES = re.compile(
    r"os\.(pidfd_\w+|sched_\w+|memfd_create|MFD_\w+|eventfd\w*|timerfd_\w+|unshare|setns|CLONE_\w+|pipe2"
    r"|splice|copy_file_range|sendfile|posix_fadvise|posix_fallocate|fdatasync|getrandom|waitid"
    r"|[gs]etresuid|[gs]etresgid|(get|set|list|remove)xattr|O_(PATH|TMPFILE|DIRECT|NOATIME|LARGEFILE))"
    r"|signal\.(pidfd_send_signal|sigtimedwait|sigwaitinfo|SIGRTM\w+)"
    r"|select\.(epoll|EPOLL\w+)"
    r"|fcntl\.(F_OFD_\w+|F_SETPIPE_SZ|F_GETPIPE_SZ|F_ADD_SEALS|F_NOTIFY)"
    r"|socket\.(AF_NETLINK|AF_PACKET|AF_VSOCK|SO_PEERCRED|SOCK_CLOEXEC|SOCK_NONBLOCK)"
    r"|time\.CLOCK_(BOOTTIME|TAI)"
    r"|resource\.prlimit"
)
LINUX_PATHS = re.compile(r"/(proc|sys|dev/fuse|dev/shm|run)(/|$)")


def list_modules() -> dict[str, Path]:
    found = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def is_linux_part(module: str) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in LINUX_PARTS)


def list_imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name in known)


def list_portable_modules() -> dict[str, Path]:
    """The client without its Linux parts, and all of the protocol and grammar that it imports."""
    known = list_modules()
    portable: dict[str, Path] = {}
    waiting = [name for name in known if name == "pit" or name.startswith("pit.")]
    while waiting:
        name = waiting.pop()
        if name not in portable and not is_linux_part(name):
            portable[name] = known[name]
            waiting += list_imports(known[name], known)
    return portable


def list_linux_uses(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if LINUX_PATHS.match(node.value) else []
        else:
            continue
        for name in names:
            if LINUX_NAMES.fullmatch(name) or LINUX_MODULES.fullmatch(name) or LINUX_PATHS.match(name):
                yield node.lineno, name


def test_the_client_makes_no_linux_only_call_outside_its_linux_parts() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in list_portable_modules().values()
        for line, name in list_linux_uses(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_the_scan_covers_what_the_client_imports_and_not_what_only_mounts_need() -> None:
    portable = list_portable_modules()
    assert {"pit.cli", "pit_protocol.transport.tar_extract", "pit_protocol.transport.tls"} <= set(portable)
    assert not {"pit.local.daemon", "pit_protocol.transport.rclone"} & set(portable)


@pytest.mark.parametrize(
    "line",
    [
        "os.pidfd_open(1)",
        "os.open('.', os.O_PATH)",
        "from os import sched_getaffinity",
        "import ctypes",
        "import ctypes.util",
        "select.epoll()",
        "fcntl.fcntl(1, fcntl.F_OFD_SETLK)",
        "open('/proc/self/status')",
        "open(f'/sys/class/{name}')",
    ],
)
def test_a_linux_only_call_is_found(line: str) -> None:
    assert list(list_linux_uses(line))


def test_what_every_unix_has_is_not_reported() -> None:
    source = "import os, signal, select, fcntl\nos.open('/', os.O_DIRECTORY | os.O_NOFOLLOW)\nselect.poll()"
    assert not list(list_linux_uses(source))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("up", "`pit up` needs Linux for its head and worker; this is macOS"),
        ("down", "`pit down` needs Linux, as `pit up` does; this is macOS"),
        ("mount", "`pit mount` needs Linux with FUSE; this is macOS"),
    ],
)
def test_a_linux_command_says_elsewhere_what_it_needs(command: str, sentence: str) -> None:
    with pytest.raises(Problem) as caught:
        require_linux(command, "darwin")
    assert caught.value.message == sentence
    assert caught.value.hint
    require_linux(command, "linux")
