"""`pit mcp`: let agents use the head."""

import sys

import click

from pit.args.options import example
from pit.client import Client
from pit.exit_codes import Exit
from pit.mcp.server import MAX_LINE, Server
from pit.mcp.tools import list_tools


@click.command("mcp", epilog=example("pit mcp --write"))
@click.option("--write", "writes", is_flag=True, help="Also offer tools that submit and stop jobs.")
def command(writes: bool) -> Exit:
    """Serve the Model Context Protocol on stdin and stdout, for agents.

    An agent gets tools that look at jobs, logs, results and nodes, with the rights of your login in this
    directory. Without --write it cannot change anything. The program that runs the agent starts this
    command; on a terminal there is nothing to see.
    """
    with Client() as client:
        Server(client, list_tools(writes=writes)).serve(
            iter(lambda: sys.stdin.buffer.readline(MAX_LINE + 1), b""), sys.stdout
        )
    return Exit.DONE
