"""`pit run`: from the project around the current directory to a job."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pit import dry_run, output, render
from pit.exits import Exit
from pit.files import read_text
from pit.folder import Folder
from pit.following import show_log, wait_for_end
from pit.head import Head, Json
from pit.opening import open_head
from pit.options import example, job_number, json_option
from pit.patience import Patience
from pit.progress import announced
from pit.project import Project
from pit.snapshot import Shot
from pit.submission import Wish, bring, submit
from pit.variables import env_option, parse_env
from pit_grammar import RequestError, parse
from pit_protocol.problem import Problem
from pit_protocol.submission import MAX_COMMAND, MAX_TITLE

COMPUTE_FILE = ".compute"
REQUEST_FILE = ".pitrequest.txt"
IMAGE_FILE = ".pitimage.txt"
DEFAULT_REQUEST = "[]"


@click.command("run", epilog=example("pit run \"First light\" '[2:gtx1070]' -d 'nvidia-smi; env' -l"))
@click.argument("title")
@click.argument("request", required=False)
@click.option("-d", "--direct", "commands", metavar="COMMANDS", help="Run these by bash instead of .compute.")
@click.option("-l", "--log", "follow", is_flag=True, help="Follow the log; exit code 3 if the job fails.")
@click.option("-p", "--private", is_flag=True, help="Do not share the job with your groups.")
@click.option(
    "-c",
    "--continue",
    "continues",
    metavar="N",
    type=job_number,
    help="Start with a copy of job N's keep directory.",
)
@env_option
@click.option("--image", metavar="NAME", help="Run in this container image, not in the cluster's default.")
@click.option(
    "-a", "--archive", is_flag=True, help="Send this directory as it is, whether git knows it or not."
)
@click.option("--bundle", is_flag=True, help="Send all objects; the head need not reach the remote.")
@click.option(
    "--include", metavar="NAME", multiple=True, help="Send this untracked file though it looks like a secret."
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Only list what would go along.")
@json_option
def command(
    title: str,
    request: str | None,
    commands: str | None,
    follow: bool,
    private: bool,
    continues: int | None,
    env: tuple[str, ...],
    image: str | None,
    archive: bool,
    bundle: bool,
    include: tuple[str, ...],
    is_dry: bool,
    as_json: bool,
) -> Exit:
    """Enqueue the project around the current directory as a new job.

    TITLE is a short text that tells jobs apart. REQUEST says what the job needs: `2:[8:gtx1070]`
    is two processes with eight of these GPUs each; without it, .pitrequest.txt in the project
    root is taken, else one process without GPU. .pitimage.txt there names the default of --image.

    All files that git does not ignore go along as they are, committed or not, those of submodules too.
    Untracked ones that look like secrets (.env, *.pem, id_rsa …) stay, unless named by --include; what
    .pitignore names stays as if git ignored it. With -l and --json, the job's record comes first, then
    its log lines, then its record at the end.
    """
    parsed = _parse_request(request, "") if request is not None else None
    project = Folder(Path.cwd()) if archive else Project.find(Path.cwd())
    if is_dry:
        with shoot(project, include, with_remote=not bundle) as shot:
            dry_run.show(shot, as_json=as_json)
        return Exit.DONE
    wish = Wish(
        title=_checked_title(title),
        request=parsed or _default_request(project),
        command=_checked_commands(commands, project),
        private=private,
        continues=continues,
        image=image or _default_image(project),
        variables=parse_env(env),
    )
    with open_head() as head, shoot(project, include, with_remote=not bundle) as shot:
        if wish.command is None and not shot.has(COMPUTE_FILE):
            raise Problem(
                "compute_ignored",
                f"{COMPUTE_FILE} would not go along: git ignores it",
                f"`git check-ignore -v {COMPUTE_FILE}` shows by which rule",
            )
        record = submit(head, wish, bring(head, shot))
        return accepted(head, record, follow=follow, as_json=as_json)


@contextmanager
def shoot(project: Project, include: tuple[str, ...] = (), *, with_remote: bool = True) -> Iterator[Shot]:
    """The project as it is now; what the user should know of it is told."""
    with tempfile.TemporaryDirectory(prefix="pit-", ignore_cleanup_errors=True) as scratch:
        with announced("reading the project"):
            shot = Shot(project, Path(scratch), include, with_remote=with_remote)
        for note in shot.notes:
            output.tell(note)
        yield shot


def accepted(head: Head, record: Json, *, follow: bool, as_json: bool) -> Exit:
    """Show the new job, and its log if that is wanted."""
    if as_json:
        output.show_json(record)
    else:
        output.show(render.accepted_text(record))
    return _follow(head, int(record["number"]), as_json) if follow else Exit.DONE


def _follow(head: Head, number: int, as_json: bool) -> Exit:
    if not as_json:
        output.show("")
    code = show_log(head, number, {}, as_json=as_json, met=True)
    if code is not Exit.DONE:
        return code
    record = wait_for_end(head, number, Patience(output.tell, met=True))
    if as_json:
        output.show_json(record)
    if record["outcome"] == "succeeded":
        return Exit.DONE
    output.tell(render.ending(record))
    return Exit.JOB_FAILED


def _default_request(project: Project) -> str:
    path = project.top / REQUEST_FILE
    text = (read_text(path) or "").strip()
    return _parse_request(text, f"{path}: ") if text else DEFAULT_REQUEST


def _default_image(project: Project) -> str | None:
    return (read_text(project.top / IMAGE_FILE) or "").strip() or None


def _parse_request(text: str, where: str) -> str:
    """The request in its canonical form."""
    try:
        return str(parse(text))
    except RequestError as error:
        sentence, _, rest = str(error).partition("\n")
        raise Problem("bad_request", f"{where}{sentence}", rest) from error


def _checked_title(title: str) -> str:
    title = title.strip()
    if not title or len(title) > MAX_TITLE:
        raise click.BadParameter(f"a title has 1 to {MAX_TITLE} characters, not {len(title)}")
    return title


def _checked_commands(commands: str | None, project: Project) -> str | None:
    if commands is None:
        if not (project.top / COMPUTE_FILE).is_file():
            raise Problem(
                "no_compute",
                f"there is no {COMPUTE_FILE} in {project.top}",
                "write one (bash, run by every process), or give commands with -d",
            )
        return None
    if not commands.strip() or len(commands) > MAX_COMMAND:
        raise click.BadParameter(f"-d takes 1 to {MAX_COMMAND:,} characters, not {len(commands.strip()):,}")
    return commands
