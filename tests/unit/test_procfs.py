"""Reading /proc/<pid>/stat."""

import os
import subprocess
import sys

from pit_protocol.system.procfs import Stat, parse_stat, read_stat
from tests.support.clusters.local import eventually


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields():
    fields = "S 7 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 11 12"
    assert parse_stat(f"42 (a) b (c) {fields}") == Stat(42, 98765, parent=7, session=43, state="S", threads=1)


def test_this_process_is_found():
    stat = read_stat(os.getpid())
    assert stat
    assert (stat.pid, stat.parent, stat.session) == (os.getpid(), os.getppid(), os.getsid(0))


def test_a_process_that_is_gone_has_no_stat():
    child = subprocess.Popen(["true"])
    child.wait()
    assert read_stat(child.pid) is None


PROGRAM = """
import ctypes, threading
threading.Thread(target=lambda: (print("up", flush=True), input())).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_zombie_whose_threads_still_run_has_not_ended():
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdin
        child.stdout.readline()
        eventually(lambda: (stat := read_stat(child.pid)) and stat.state == "Z")
        stat = read_stat(child.pid)
        assert stat and not stat.has_ended
        child.stdin.close()
        eventually(lambda: (stat := read_stat(child.pid)) and stat.has_ended)
