"""Running git on the head: fixed arguments, a clean environment, never in a tree that a job could write."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

CONFIG = (
    "core.hooksPath=/dev/null",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    "transfer.fsckObjects=true",
    "transfer.bundleURI=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "core.compression=1",
)


class GitFailed(Exception):
    """git ended with an error, or ran out of time; the text is its last words."""


@dataclass(frozen=True)
class Git:
    """git on one bare repository."""

    directory: Path
    protocols: tuple[str, ...]
    timeout_s: float
    say: Callable[[str], None]  # what git has to tell goes into the job's log

    def run(
        self, *arguments: str, stdin: Path | None = None, env: Mapping[str, str] | None = None, text: str = ""
    ) -> str:
        """Run one git command, given a file or a text, and return its output; GitFailed if it ends badly."""
        command = ["git", *self._options(), *arguments]
        with open(stdin or os.devnull, "rb") as source:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if text else source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._environment(), **(env or {})},
                cwd=self.directory if self.directory.exists() else None,
                start_new_session=True,
            )
            try:
                output, errors = process.communicate(text.encode() or None, timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                # The whole session, for helpers such as git-remote-https would go on.
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise GitFailed(f"git {arguments[0]} took longer than {self.timeout_s:.0f} s") from None
        words = errors.decode(errors="replace").strip()
        for line in words.splitlines():
            self.say(line)
        if process.returncode:
            raise GitFailed(words or f"git {arguments[0]} ended with {process.returncode}")
        return output.decode(errors="replace").strip()

    def has(self, *names: str) -> bool:
        """Whether all these objects are here."""
        try:
            found = replace(self, say=_say_nothing).run("cat-file", "--batch-check", text="\n".join(names))
        except GitFailed:
            return False
        return not [line for line in found.splitlines() if line.endswith(" missing")]

    def _options(self) -> list[str]:
        options = [f"--git-dir={self.directory}", "-c", "protocol.allow=never"]
        for setting in (*CONFIG, *(f"protocol.{name}.allow=always" for name in self.protocols)):
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
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=accept-new",
        }


def _say_nothing(_text: str) -> None:
    """For questions whose answer may be no."""
