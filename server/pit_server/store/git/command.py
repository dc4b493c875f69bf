"""Running git on the head: fixed options, a clean environment, never in a tree that a job can write."""

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO

from pit_server.cancellation import Watch

CONFIG = (
    "core.hooksPath=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    # Larger files are streamed, and neither diffed nor held in memory.
    "core.bigFileThreshold=16m",
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=256m",
    "core.compression=1",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    "transfer.fsckObjects=true",
    "transfer.bundleURI=false",
    "submodule.recurse=false",
    "pack.threads=2",
    "gc.auto=0",
    "tar.umask=0022",
)
# fsck findings that are common in old histories and harmless.
HARMLESS = (
    "zeroPaddedFilemode",
    "zeroPaddedDate",
    "badTimezone",
    "badDate",
    "badEmail",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeEmail",
    "missingSpaceBeforeDate",
    "multipleAuthors",
    "nulInCommit",
)
BLOCK = 256 * 1024
MAX_MEMORY = 4 << 30  # address space of one git process, because a small pack can expand without bound


class GitFailed(Exception):
    """git failed or timed out; the text is the end of its stderr."""


@dataclass(frozen=True)
class Access:
    """How git reaches a remote: protocols, address and credentials."""

    config: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


NO_ACCESS = Access()


def discard_output(_text: str) -> None:
    """For commands that may fail."""


@dataclass(frozen=True)
class Git:
    """git on one bare repository; without access it contacts no remote."""

    directory: Path
    timeout_s: float
    say: Callable[[str], None] = discard_output  # receives git's stderr, for the job's log
    access: Access = NO_ACCESS
    max_file_bytes: int = 0  # largest file that it may write; 0: any
    env: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str, stdin: Path | None = None, env: Mapping[str, str] | None = None, text: str = ""
    ) -> str:
        """Run one git command with a file or a text as input, and return its output; may raise GitFailed."""
        output = b"".join(self.stream(*arguments, stdin=stdin, env=env, text=text))
        return output.decode(errors="surrogateescape").strip()

    def stream(
        self, *arguments: str, stdin: Path | None = None, env: Mapping[str, str] | None = None, text: str = ""
    ) -> Iterator[bytes]:
        """The output of one git command in pieces; the command is killed when the iterator is closed."""
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(_given(stdin, text))
            errors = stack.enter_context(tempfile.TemporaryFile())
            process = self._start(arguments, source, errors, env)
            stack.callback(_finish, process)
            watch = Watch(partial(_kill, process), self.timeout_s)
            stack.callback(watch.end)
            assert process.stdout is not None  # noqa: S101 - a pipe
            while block := process.stdout.read1(BLOCK):  # type: ignore[attr-defined]
                yield block
            process.wait()
            watch.check()
            self._check_result(arguments[0], process.returncode, _tail(errors), is_late=watch.is_late)

    def has(self, *names: str) -> bool:
        """Whether all these objects exist."""
        return not self.missing(*names)

    def missing(self, *names: str) -> list[str]:
        """The objects that do not exist."""
        if not names:
            return []
        asked = "\n".join(names) + "\n"
        found = replace(self, say=discard_output).run("cat-file", "--batch-check", text=asked).splitlines()
        return [name for name, line in zip(names, found, strict=True) if line.endswith(" missing")]

    def _start(
        self,
        arguments: tuple[str, ...],
        source: IO[bytes],
        errors: IO[bytes],
        env: Mapping[str, str] | None,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["git", *self._options(), *arguments],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**self._environment(), **self.access.env, **self.env, **(env or {})},
            cwd=self.directory if self.directory.exists() else None,
            start_new_session=True,
        )
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
            if self.max_file_bytes:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (self.max_file_bytes,) * 2)
        return process

    def _check_result(self, command: str, code: int, stderr: str, *, is_late: bool) -> None:
        for line in stderr.splitlines():
            self.say(line)
        if is_late:
            raise GitFailed(f"git {command} took longer than {self.timeout_s:g} s")
        if (
            code == -signal.SIGXFSZ
            or f"died of signal {signal.SIGXFSZ}" in stderr
            or "File too large" in stderr
        ):
            raise GitFailed(f"git {command} got more than {self.max_file_bytes / (1 << 30):.3g} GiB")
        if code:
            raise GitFailed(stderr or f"git {command} ended with {code}")

    def _options(self) -> list[str]:
        options = [f"--git-dir={self.directory}", "-c", "protocol.allow=never"]
        harmless = (f"fetch.fsck.{name}=ignore" for name in HARMLESS)
        for setting in (*CONFIG, *harmless, *self.access.config):
            options += ["-c", setting]
        return options

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LFS_SKIP_SMUDGE": "1",
        }


@contextlib.contextmanager
def _given(stdin: Path | None, text: str) -> Iterator[IO[bytes]]:
    """The command's stdin: a file, a text, or empty."""
    if not text:
        with open(stdin or os.devnull, "rb") as source:
            yield source
        return
    with tempfile.TemporaryFile() as source:
        source.write(os.fsencode(text))
        source.seek(0)
        yield source


def _finish(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _kill(process)
    process.wait()
    if process.stdout:
        process.stdout.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session, including helpers such as git-remote-https."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _tail(errors: IO[bytes], limit: int = 64 * 1024) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(errors.tell() - limit, 0))
    return errors.read().decode(errors="replace").strip()
