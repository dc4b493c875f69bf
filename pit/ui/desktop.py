"""Desktop notifications: by the desktop's own program, or by the terminal."""

import os
import shutil
import subprocess
import sys

from pit.ui.sanitize import sanitize

APPLE_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
SESSION = ("DISPLAY", "WAYLAND_DISPLAY")
TIMEOUT_S = 5.0


def notify(title: str, text: str) -> None:
    """Show a notification; where there is no desktop, ring the terminal and let it show the text."""
    title, text = sanitize(title), sanitize(text)
    if command := _find_command(title, text):
        try:
            subprocess.run(command, check=True, timeout=TIMEOUT_S, capture_output=True)
        except (OSError, subprocess.SubprocessError):
            pass  # a desktop that does not answer; the terminal does
        else:
            return
    if sys.stderr.isatty():
        # OSC 9: terminals that know it show the text, others ignore it.
        sys.stderr.write(f"\x1b]9;{title}: {text}\x07\x07")
        sys.stderr.flush()


def _find_command(title: str, text: str) -> list[str] | None:
    if sys.platform == "darwin":
        script = [word for line in APPLE_SCRIPT for word in ("-e", line)]
        return ["osascript", *script, title, text]
    if shutil.which("notify-send") and any(os.environ.get(name) for name in SESSION):
        return ["notify-send", "--app-name=pit", "--", title, text]
    return None
