"""`pit mount`: a data directory as a local file system."""

from pathlib import Path

import click

from pit import mounting, output
from pit.exits import Exit
from pit.locations import parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit_protocol.problem import Problem


@click.command("mount", epilog=example("pit mount group:students ~/students --shell"))
@click.argument("entity", metavar="E")
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--shell", is_flag=True, help="Open a shell inside, and unmount when it ends.")
@json_option
def command(entity: str, directory: Path | None, shell: bool, as_json: bool) -> Exit | int:
    """Mount the data directory E (home, shared, group:G, user:U or a job's number) at DIR.

    Without DIR a new directory in ~/pit is used. It stays until Ctrl-C; what was written is then on the head.
    `shared` and directories of jobs can only be read.
    """
    source = mounting.find_source(parse_location(entity))
    mounting.check_machine()
    with open_head() as head:
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
    with mounting.mounted(connection, source, directory) as (place, mount):
        if as_json:
            output.show_json({"entity": entity, "path": str(place), "read_only": source.read_only})
        else:
            how = " (read-only)" if source.read_only else ""
            end = "leaving the shell" if shell else "Ctrl-C"
            output.tell(f"{entity} is at {place}{how}; {end} unmounts it")
        if shell:
            return mounting.run_shell(place)
        mount.wait()
    return Exit.DONE
