"""A server of the Model Context Protocol over stdin and stdout: one JSON-RPC message on each line."""

import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

from pit.client import Client
from pit.mcp.tools import Tool, call
from pit_protocol import __version__
from pit_protocol.problem import Problem

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, the newest first
MAX_LINE = 4 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, NO_SUCH_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INSTRUCTIONS = (
    "pit runs git projects as jobs on a cluster. Look at jobs with `status`, `job`, `log` and `why`; if the "
    "server may write, `run` submits the project in its directory as it is on disk."
)


class Refused(Exception):
    """A message that the server cannot handle, with its JSON-RPC code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Server:
    def __init__(self, client: Client, tools: Sequence[Tool]) -> None:
        self._client, self._tools = client, {tool.name: tool for tool in tools}

    def serve(self, lines: Iterable[bytes], out: IO[str]) -> None:
        """Answer each message until the input ends."""
        for line in lines:
            if line.strip() and (answer := self.answer(line)) is not None:
                out.write(json.dumps(answer) + "\n")
                out.flush()

    def answer(self, line: bytes) -> dict[str, Any] | None:
        """The answer to one message; None for a notification."""
        number = None
        try:
            message = _parse(line)
            number = message.get("id")
            result = self._handle(message["method"], message.get("params") or {})
        except Refused as refused:
            return {"jsonrpc": "2.0", "id": number, "error": {"code": refused.code, "message": str(refused)}}
        return None if number is None else {"jsonrpc": "2.0", "id": number, "result": result}

    def _handle(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return self._initialize(params)
        if method == "ping" or method.startswith("notifications/"):
            return {}
        if method == "tools/list":
            return {"tools": [tool.describe() for tool in self._tools.values()]}
        if method == "tools/call":
            return self._call(params)
        raise Refused(NO_SUCH_METHOD, f"there is no method {method!r}")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "pit", "version": __version__},
            "instructions": INSTRUCTIONS,
        }

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise Refused(INVALID_PARAMS, f"there is no tool {params.get('name')!r}")
        try:
            found = call(tool, self._client, params.get("arguments") or {})
        except Problem as problem:
            return _error(f"{problem.message}\n{problem.hint}".strip())
        except Exception as error:  # an agent must not end the server with odd values
            return _error(f"internal error: {type(error).__name__}: {error}")
        return {
            "content": [{"type": "text", "text": json.dumps(found)}],
            "structuredContent": found,
            "isError": False,
        }


def _error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _parse(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise Refused(INVALID_REQUEST, f"a message has more than {MAX_LINE:,} bytes")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "this is not JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise Refused(INVALID_REQUEST, "this is not a request")
    if not isinstance(message.get("params", {}), dict):
        raise Refused(INVALID_PARAMS, "parameters must be an object")
    return message
