"""What a supervisor is told about its process, as it travels from the worker to the fork server."""

from __future__ import annotations

import json
import struct

HEADER = struct.Struct("!I?")  # the size of what follows, and whether a mount namespace comes with it
ANSWER = struct.Struct("!i")  # a process id, or an error number below zero


class Launch:
    def __init__(
        self,
        *,
        directory: str,  # of the process in the spool
        script: str,  # for bash, relative to SRC_DIR
        environment: dict[str, str],
        variables: dict[str, str],  # the user's own: only the command gets them
        keep: int,  # so many bytes of output; 0: all
        cgroup: str = "",
        lease_s: float = 0.0,
        grace_s: float = 0.0,
        account: tuple[int, int, list[int]] | None = None,  # uid, gid, more gids; None: the worker's own
        is_namespaced: bool = False,  # the process gets a PID namespace
        adopts_orphans: bool = False,  # what the command leaves behind is the supervisor's to kill
    ) -> None:
        self.directory = directory
        self.script = script
        self.environment = environment
        self.variables = variables
        self.keep = keep
        self.cgroup = cgroup
        self.lease_s = lease_s
        self.grace_s = grace_s
        self.account = account
        self.is_namespaced = is_namespaced
        self.adopts_orphans = adopts_orphans

    def encode(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> Launch:
        return cls(**json.loads(text))
