"""`pit mount`: a data directory as a local file system."""

from pathlib import Path

import click

from pit.args.completers import DOMAIN, completer
from pit.args.options import example, json_option
from pit.args.remote_path import parse_remote_path
from pit.exit_codes import Exit
from pit.head.latest import find_path
from pit.local.platform_check import require_linux
from pit.login.session import open_head
from pit.transfer import webdav_mount
from pit.ui import output
from pit.ui.documents import Mount
from pit_protocol.problem import Problem


@click.command("mount", epilog=example("pit mount group:students ~/students --shell"))
@click.argument("entity", metavar="E", shell_complete=completer(DOMAIN))
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--shell", is_flag=True, help="Open a shell inside, and unmount when it ends.")
@json_option
def command(entity: str, directory: Path | None, shell: bool, as_json: bool) -> Exit | int:
    """Mount the data directory E (home, shared, group:G, user:U or a job's number) at DIR.

    Without DIR, it uses a new directory in ~/pit. Ctrl-C unmounts it once everything is written to
    the head. `shared` and directories of jobs are read-only.
    """
    require_linux("mount")
    where = parse_remote_path(entity)
    with open_head() as head:
        source = webdav_mount.find_source(find_path(head, where))
        try:
            head.find_data(source.path)
        except Problem as problem:
            if problem.status != 404:
                raise
            raise Problem(
                "no_data",
                f"there is no {entity}, or you may not see it",
                f"`pit ls {entity}` says more",
                status=404,
            ) from None
        connection = head.connection
    webdav_mount.check_machine()  # last: a wrong E is worth knowing before installing anything
    with webdav_mount.mounted(connection, source, directory) as (place, mount):
        if as_json:
            output.show_json(Mount(entity, str(place), source.read_only))
        else:
            how = " (read-only)" if source.read_only else ""
            end = "leaving the shell" if shell else "Ctrl-C"
            output.note(f"{entity} is at {place}{how}; {end} unmounts it")
        if shell:
            return webdav_mount.run_shell(place)
        mount.wait()
    return Exit.DONE
