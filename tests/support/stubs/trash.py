"""The trash of the stub head."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pit_protocol.durations import DAY_S
from pit_protocol.problem import Problem

REMOVED_AT = 1_790_000_000.0
DAYS = 30


@dataclass
class StubTrash:
    rows: list[dict[str, Any]] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)

    def add(self, domain: str) -> dict[str, Any]:
        """Put all of a job, user or group into the trash."""
        number = 17 + len(self.rows) + len(self.restored) + len(self.purged)
        times = {"at": REMOVED_AT, "until": REMOVED_AT + DAYS * DAY_S}
        row = {"id": number, "kind": domain.partition(":")[0], "domain": domain, "name": "", "by": "anna"}
        self.rows.insert(0, {**row, **times})
        return self.rows[0]

    def answer(self, method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        if path == "/trash" and method == "DELETE":
            self.purged += [row["domain"] for row in self.rows]
            self.rows.clear()
            return 200, {"count": len(self.purged)}
        if path == "/trash":
            return 200, {"trash": [row for row in self.rows if query.items() <= row.items()]}
        match = re.fullmatch(r"/trash/(\d+)(/restore)?", path)
        row = next((row for row in self.rows if match and row["id"] == int(match[1])), None)
        if row is None:
            raise Problem("no_such_trash", "there is no such entry in the trash", status=404)
        self.rows.remove(row)
        (self.purged if method == "DELETE" else self.restored).append(row["domain"])
        return 200, row
