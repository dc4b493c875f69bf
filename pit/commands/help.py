"""`pit help`: the same as --help."""

import click

from pit.args.options import example, json_option
from pit.exit_codes import Exit
from pit.ui import output


@click.command("help", epilog=example("pit help run"))
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@json_option
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> Exit:
    """Show the help of COMMAND, as `pit COMMAND --help` does; without it, the list of commands."""
    parent = ctx.parent or ctx
    shown: click.Command = parent.command
    for word in words:
        if not isinstance(shown, click.Group):
            raise click.UsageError(f"`{parent.command_path}` has no commands of its own")
        name, found, _ = shown.resolve_command(parent, [word])
        if found is None:
            raise click.UsageError(f"there is no command {word!r}")
        shown, parent = found, click.Context(found, info_name=name, parent=parent)
    text = shown.get_help(parent)
    if as_json:
        output.show_json({"help": text})
    else:
        output.show(text)
    return Exit.DONE
