"""`pit rerun`: the code of an old job as a new one, or this code with an old job's settings."""

from pathlib import Path

import click

from pit.commands.run import accepted, shoot
from pit.exits import Exit
from pit.opening import open_head
from pit.options import example, job_number, json_option
from pit.project import Project
from pit.submission import Wish, bring, submit
from pit.variables import env_option, parse_env
from pit_grammar import RequestError, parse
from pit_protocol.problem import Problem


@click.command("rerun", epilog=example("pit rerun 190 --request '4:[a100]' -l"))
@click.argument("number", type=job_number)
@click.option("--request", metavar="REQUEST", help="Ask for this instead of what the job had.")
@click.option("--title", metavar="TITLE", help="Call it this instead of the job's title.")
@env_option
@click.option("--here", is_flag=True, help="The code of the project around you, with the job's settings.")
@click.option("-l", "--log", "follow", is_flag=True, help="Follow the log; exit code 3 if the job fails.")
@json_option
def command(
    number: int,
    request: str | None,
    title: str | None,
    env: tuple[str, ...],
    here: bool,
    follow: bool,
    as_json: bool,
) -> Exit:
    """Run job NUMBER again as a new job: the very same code, commands, image, variables and request.

    The code comes from the head, so it does not matter where you are or what has become of the
    project since. The keep directory begins empty; `pit run -c` continues one. -e adds a variable,
    or replaces one; those of another user's job have to be given anew.
    """
    if request is not None:
        try:
            request = str(parse(request))
        except RequestError as error:
            sentence, _, rest = str(error).partition("\n")
            raise Problem("bad_request", sentence, rest) from error
    variables = parse_env(env)
    with open_head() as head:
        old = head.job(number)
        wish = Wish(
            title=title or old["title"],
            request=request or old["request"],
            command=old["command"],
            private=old["private"],
            image=old["image"],
            variables=variables,
            inherits=number,
        )
        if not here:
            return accepted(head, submit(head, wish, None, reruns=number), follow=follow, as_json=as_json)
        with shoot(Project.find(Path.cwd())) as shot:
            record = submit(head, wish, bring(head, shot))
            return accepted(head, record, follow=follow, as_json=as_json)
