"""Starts a program that adopts its orphaned descendants: `subreaper.py PROGRAM…`.

The program is a shell, which cannot ask for this itself. It keeps the right across exec.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
