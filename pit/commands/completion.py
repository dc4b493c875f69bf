"""`pit completion`: completion of words for shells."""

import click

from pit import completion
from pit.args.options import example, json_option
from pit.exit_codes import Exit
from pit.ui import output


@click.command(
    "completion", epilog=example("pit completion bash > ~/.local/share/bash-completion/completions/pit")
)
@click.argument("shell", type=click.Choice(completion.SHELLS))
@json_option
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> Exit:
    """Print the script that lets SHELL complete commands, options, jobs, nodes, kinds and data paths.

    For bash, write it to ~/.local/share/bash-completion/completions/pit; for zsh, to a file _pit in a
    directory of $fpath; for fish, to ~/.config/fish/completions/pit.fish. Then start a new shell.
    """
    text = completion.script(shell, ctx.find_root().command)
    if as_json:
        output.show_json({"shell": shell, "script": text})
    else:
        output.show(text)
    return Exit.DONE
