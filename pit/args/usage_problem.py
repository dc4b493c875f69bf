"""A mistake on the command line whose error names the way out itself."""

import click


class UsageProblem(click.UsageError):
    """Like `click.UsageError`, with a hint in place of the pointer to --help."""

    def __init__(self, message: str, hint: str, context: click.Context | None = None) -> None:
        super().__init__(message, context)
        self.hint = hint
