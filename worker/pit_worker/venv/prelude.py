"""Runs before the command of a process: finds or builds its Python environment, then becomes the command.

It runs as the job's user, on the node or in the container, with any `python3` that is there: it imports
nothing of ours, and nothing that Python 3.8 does not have.

An environment is a directory that is named after all it depends on. Whoever builds or uses it holds a
lock on the file beside it. The kernel releases the lock when the last process that has it is gone, so
an environment that a killed builder left is known to be incomplete, and one that is used is not removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

FAILED = 125  # exit code of a process without its environment
UV_LOCK, PROJECT = "uv.lock", "pyproject.toml"
OF_UV = (PROJECT, "uv.toml", ".python-version")  # they change what uv installs
COMPLETE = "complete"  # in an environment's directory: a file that is written last
DOWNLOADS = "downloads"  # beside the environments: what uv and pip keep for the next build
LOCK_FD = 200  # a number that scripts do not use themselves
PIP_WITH_PYTHON = 23  # from this version on, pip can install into any environment
TAIL = 200  # lines of a builder's output in which a reason is looked for
MAX_FILES = 100  # that one requirements file may name
OFFLINE = re.compile(
    r"name resolution|name or service not known|dns error|lookup address|network is unreachable"
    r"|no route to host|connection refused|establish a new connection|timed out",
    re.IGNORECASE,
)


class Failed(Exception):
    """Why there is no environment; the text is for the user."""


class Venv:
    """What was ordered: built from `file`, for Python `version` (any, if empty), below `folder`."""

    def __init__(self, file: str, version: str, folder: Path, image: str) -> None:
        self.file = file
        self.is_project = Path(file).name == UV_LOCK
        self.version = version
        self.folder = folder
        self.uv = shutil.which("uv")
        self.python, self.release = self._find_python()
        if not self.python and not self.uv:
            raise Failed(f"there is no Python {version} here, and no uv that could download it")
        self.home = folder / self._key(image)
        self.venv = self.home / "venv"

    def describe(self) -> str:
        return f"{self.file}, Python {self.release or self.version or 'as uv chooses'}"

    def _find_python(self) -> tuple[str, str]:
        """An interpreter and its version; empty if uv has to find one."""
        own = "{}.{}.{}".format(*sys.version_info)
        if self.uv and self.is_project:
            # A project may ask for a version, too.
            wanted = [self.version] if self.version else []
            found = _ask([self.uv, "python", "find", "--system", *wanted])
            return (found, _ask([found, "--version"]).partition(" ")[2]) if found else ("", "")
        if f"{own}.".startswith(f"{self.version}." if self.version else ""):
            return sys.executable, own
        found = shutil.which("python" + ".".join(self.version.split(".")[:2])) or ""
        release = _ask([found, "--version"]).partition(" ")[2] if found else ""
        return (found, release) if f"{release}.".startswith(f"{self.version}.") else ("", "")

    def _key(self, image: str) -> str:
        """A name made of everything that decides what is installed."""
        digest = hashlib.sha256()
        python = f"{self.release} {Path(self.python).resolve()}" if self.python else f"uv {self.version}"
        settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(("UV_", "PIP_")))
        for text in ("1", self.file, image, python, os.uname().machine, str(self.folder), *settings):
            digest.update(f"{len(text.encode())} {text}\n".encode())
        for file in self._list_files():
            content = file.read_bytes()
            digest.update(f"{file} {len(content)}\n".encode() + content)
        return digest.hexdigest()[:32]

    def _list_files(self) -> list[Path]:
        top = Path(self.file)
        if not top.is_file():
            raise Failed(f"there is no {self.file} in the project")
        if self.is_project:
            _check_lock(top)
            files = [top, *(top.parent / name for name in OF_UV)]
        else:
            files = [*list_requirements(top), Path("uv.toml")]
        return [file for file in files if file.is_file()]


def list_requirements(top: Path) -> list[Path]:
    """A requirements file and all files that it names."""
    found, todo = [], [top]
    while todo:
        file = todo.pop(0)
        if file in found:
            continue
        found.append(file)
        if len(found) > MAX_FILES:
            raise Failed(f"{top} names more than {MAX_FILES} files")
        if file.suffix in (".whl", ".gz", ".zip"):
            continue
        if not file.is_file():
            raise Failed(f"{top} names {file}, which is not in the project")
        for line in file.read_text(errors="replace").splitlines():
            todo += _named_files(file, line.strip())
    return found


def _named_files(file: Path, line: str) -> list[Path]:
    nested = re.match(r"(?:-r|-c|--requirement|--constraint)[ =]*([^\s#]+)", line)
    if nested:
        return [] if "://" in nested[1] else [file.parent / nested[1]]
    target = re.sub(r"^(-e|--editable)[ =]*", "", line)
    path = Path(re.split(r"[\s\[;#]", target)[0] or "#")
    if path.is_dir() and not path.is_absolute():
        raise Failed(
            f"{file} installs the directory {str(path)!r} of the project, which other jobs must not get; "
            "leave that line out: the project itself can be imported without it"
        )
    return [path] if path.is_file() and not path.is_absolute() else []


def _check_lock(file: Path) -> None:
    local = re.search(r'source = \{ (?:directory|path) = "([^"]*)"', file.read_text(errors="replace"))
    if local:
        raise Failed(
            f"{file} installs {local[1]!r} from the project, which other jobs must not get; "
            "make it a member of the workspace, or copy it into the project"
        )


def take(venv: Venv) -> int:
    """Find or build the environment; returns a descriptor that keeps it from being removed."""
    for _ in range(3):
        began = time.monotonic()
        handle, has_waited = _lock(venv.home, fcntl.LOCK_SH)
        if _is_complete(venv):
            origin = "built by another process" if has_waited else "from the cache"
            _say(f"{origin}: {venv.describe()} ({time.monotonic() - began:.1f} s)")
            return handle
        os.close(handle)
        handle, _ = _lock(venv.home, fcntl.LOCK_EX)
        if not _is_complete(venv):
            build(venv, handle)
            _say(f"built in {time.monotonic() - began:.1f} s")
        # Between the two locks it may be removed, to free disk space.
        fcntl.flock(handle, fcntl.LOCK_SH)
        if _is_complete(venv) and _is_file(handle, _lock_file(venv.home)):
            return handle
        os.close(handle)
    raise Failed(
        "the environment was removed as soon as it was built; venv_cache_gib of the node is too small"
    )


def build(venv: Venv, lock: int) -> None:
    """Build it where it will be used, because an environment cannot be moved."""
    _say(f"building from {venv.describe()}, with {'uv' if venv.uv else 'pip'}")
    remove_tree(venv.home)
    venv.home.mkdir(mode=0o700)
    downloads, _ = _lock(venv.folder / DOWNLOADS, fcntl.LOCK_SH)
    builder = Builder(venv, (lock, downloads))
    if venv.is_project:
        builder.sync_project()
    else:
        builder.install_requirements()
    os.close(downloads)
    for folder, _, _ in os.walk(venv.venv):
        # A job that installs something there would change it for others.
        Path(folder).chmod(stat.S_IMODE(os.lstat(folder).st_mode) & ~0o222)
    # So that it is complete after a power loss, too; an image may have no such program.
    if not shutil.which("sync") or subprocess.run(["sync", "-f", str(venv.home)], check=False).returncode:
        os.sync()
    (venv.home / COMPLETE).touch()


class Builder:
    """Runs uv or pip. What they start has the locks too: nothing is built where they still write."""

    def __init__(self, venv: Venv, locks: tuple[int, ...]) -> None:
        self._venv = venv
        self._locks = locks
        downloads = venv.folder / DOWNLOADS
        self._environ = {
            "UV_CACHE_DIR": str(downloads / "uv"),
            "UV_PYTHON_INSTALL_DIR": str(venv.home / "python"),
            "UV_PYTHON_PREFERENCE": "system",
            "UV_COMPILE_BYTECODE": "1",
            "UV_NO_PROGRESS": "1",
            "PIP_CACHE_DIR": str(downloads / "pip"),
            "PIP_PROGRESS_BAR": "off",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")},
            "UV_PROJECT_ENVIRONMENT": str(venv.venv),
        }

    def install_requirements(self) -> None:
        venv, python = self._venv, str(self._venv.venv / "bin/python")
        if venv.uv:
            self._run([venv.uv, "venv", "--quiet", "--python", venv.python or venv.version, str(venv.venv)])
            self._run([venv.uv, "pip", "install", "--python", python, "-r", venv.file])
        else:
            self._run([*self._make_for_pip(), "install", "-r", venv.file])

    def sync_project(self) -> None:
        venv, uv = self._venv, self._venv.uv
        if not uv:
            # pip cannot read uv.lock, but it can install uv.
            self._run([*self._make_for_pip(), "install", "--quiet", "uv"])
            uv = str(venv.venv / "bin/uv")
        python = ["--python", venv.python or venv.version] if venv.python or venv.version else []
        project = ["--project", str(Path(venv.file).parent)]
        # The project itself differs from job to job; `--inexact` keeps a uv that is in there.
        options = ["--frozen", "--inexact", "--no-install-project", "--no-install-workspace"]
        self._run([uv, "sync", *options, *project, *python])

    def _make_for_pip(self) -> list[str]:
        """Make an empty environment; returns the command of a pip that installs into it."""
        venv, python = self._venv, str(self._venv.venv / "bin/python")
        known = re.match(r"pip (\d+)", _ask([venv.python, "-m", "pip", "--version"]))
        if known and int(known[1]) >= PIP_WITH_PYTHON:
            # It takes seconds to install another pip.
            self._run([venv.python, "-m", "venv", "--without-pip", str(venv.venv)])
            return [venv.python, "-m", "pip", "--python", python]
        self._run([venv.python, "-m", "venv", str(venv.venv)])
        return [python, "-m", "pip"]

    def _run(self, command: list[str]) -> None:
        tail: list[str] = []
        with subprocess.Popen(
            command,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self._locks,
        ) as process:
            for line in process.stdout or ():
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
                tail = [*tail[-TAIL:], line.decode(errors="replace")]
        if process.returncode:
            raise Failed(self._explain(Path(command[0]).name, process.returncode, "".join(tail)))

    def _explain(self, tool: str, code: int, output: str) -> str:
        tool = tool if tool == "uv" else "pip"
        text = f"{tool} could not build the environment from {self._venv.file} (exit code {code})"
        if OFFLINE.search(output):
            return f"{text}: this node cannot reach the package index; an image may have the packages instead"
        return f"{text}; its output is above"


def remove_tree(path: Path) -> None:
    """Delete a directory in which directories may be read-only; raises OSError."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(folder, 0o700)  # noqa: PTH101
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def activate(venv: Venv, environ: dict[str, str]) -> dict[str, str]:
    """The environment of the command."""
    active = {name: value for name, value in environ.items() if name != "PYTHONHOME"}
    active["VIRTUAL_ENV"] = str(venv.venv)
    active["PATH"] = f"{venv.venv / 'bin'}:{environ.get('PATH', os.defpath)}"
    if venv.is_project:
        # `uv run` then uses it as it is.
        active.update(UV_PROJECT_ENVIRONMENT=str(venv.venv), UV_NO_SYNC="1", UV_FROZEN="1")
    top = Path(venv.file).parent if venv.is_project else Path()
    with suppress(OSError):
        if "[build-system]" in (top / PROJECT).read_text(errors="replace"):
            # In place of its installation, which would be another job's.
            source = (top / "src" if (top / "src").is_dir() else top).resolve()
            active["PYTHONPATH"] = ":".join(filter(None, (str(source), environ.get("PYTHONPATH"))))
    return active


def main(command: list[str]) -> None:
    names = ("FILE", "PYTHON", "DIR", "IMAGE", "PRELUDE")
    file, version, folder, image, _ = (os.environ.pop(f"PIT_VENV_{name}", "") for name in names)
    try:
        venv = Venv(file, version, Path(folder), image)
        handle = take(venv)
    except (Failed, OSError) as error:
        _say(str(error))
        sys.exit(FAILED)
    os.dup2(handle, LOCK_FD, inheritable=True)
    os.utime(LOCK_FD)  # when it was last used
    environ = activate(venv, dict(os.environ))
    # Python ignores these, and the command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(command[0], command, environ)  # noqa: S606


def _lock(path: Path, kind: int) -> tuple[int, bool]:
    """Lock the file beside a path; returns its descriptor, and whether it had to wait for another process."""
    has_waited = False
    while True:
        handle = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            has_waited = True
            _say("waiting for another process that builds it")
            fcntl.flock(handle, kind)
        # Whoever removes the environment removes the lock file, too.
        if _is_file(handle, _lock_file(path)):
            return handle, has_waited
        os.close(handle)


def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _is_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _is_complete(venv: Venv) -> bool:
    return (venv.home / COMPLETE).exists()


def _ask(command: list[str]) -> str:
    """What a program says in one line; empty if it fails."""
    environ = {"UV_PYTHON_PREFERENCE": "system", **os.environ}
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _say(text: str) -> None:
    sys.stdout.write(f"venv: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
