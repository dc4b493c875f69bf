"""The error type for everything that a user can act on."""

from collections.abc import Mapping
from typing import Any


class Problem(Exception):
    """What is wrong, with a hint how to fix it; sent as `application/problem+json`."""

    def __init__(self, code: str, message: str, hint: str = "", *, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.status = status

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint, "status": self.status}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Problem":
        """Read an error answer; tolerates the body of a server that is not a head."""
        return cls(
            str(body.get("code", "unknown")),
            str(body.get("message", "the head gave no reason")),
            str(body.get("hint", "")),
            status=status if isinstance(status := body.get("status"), int) else 500,
        )
