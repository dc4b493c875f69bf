"""The Python environment of a process: built once, by real uv and pip, from packages made here."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_worker.venv.cache import PRELUDE
from pit_worker.venv.eviction import evict
from pit_worker.venv.prelude import FAILED, Failed, Venv
from tests.support.wheels import UV, make_wheel, need_uv, only_from
from tests.worker.conftest import Eventually, is_alive

PYTHON = "{}.{}.{}".format(*sys.version_info[:3])
SHOW = "python -c 'import coal, sys; print(coal.VERSION, sys.prefix)'; echo $VIRTUAL_ENV"
HANGS_ONCE = """#!/bin/sh
if [ "$1" = pip ] && [ ! -e {folder}/hung ]; then echo $$ >{folder}/hung; exec sleep 1000; fi
exec {uv} "$@"
"""


class Jobs:
    """Processes of one user, whose project is in `project`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.venvs = folder / "venvs"
        self.programs = folder / "bin"
        for place in (self.project, self.venvs, self.programs):
            place.mkdir()
        make_wheel(folder / "wheels", "coal")
        self.environ = {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "PIT_VENV_DIR": str(self.venvs),
            "PIT_VENV_FILE": "requirements.txt",
            **only_from(folder / "wheels"),
        }
        self.write("requirements.txt", "coal\n")
        self._running: list[subprocess.Popen[str]] = []

    def use_uv(self, script: str = "") -> None:
        need_uv()
        (self.programs / "uv").unlink(missing_ok=True)
        if script:
            (self.programs / "uv").write_text(script)
            (self.programs / "uv").chmod(0o755)
        else:
            (self.programs / "uv").symlink_to(UV)

    def write(self, name: str, text: str) -> None:
        (self.project / name).parent.mkdir(parents=True, exist_ok=True)
        (self.project / name).write_text(text)

    def start(self, command: str, output: Path, **environ: str) -> subprocess.Popen[str]:
        with output.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", str(PRELUDE), "/bin/bash", "-c", command],
                cwd=self.project,
                env={**self.environ, **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._running.append(process)
        return process

    def run(self, command: str, **environ: str) -> tuple[int, str]:
        """The exit code and the log of a process."""
        output = self.folder / f"output{len(self._running)}"
        code = self.start(command, output, **environ).wait(100)
        return code, output.read_text()

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path)
    yield jobs
    jobs.close()


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_requirements_are_installed_once_and_active(jobs: Jobs, tool: str):
    if tool == "uv":
        jobs.use_uv()
    code, log = jobs.run(SHOW)
    assert code == 0, log
    assert f"venv: building from requirements.txt, Python {PYTHON}, with {tool}\n" in log
    assert "venv: built in " in log
    [venv] = jobs.venvs.glob("*/venv")
    assert log.endswith(f"1.0 {venv}\n{venv}\n")

    again = jobs.run(SHOW)[1]
    assert again.startswith(f"venv: from the cache: requirements.txt, Python {PYTHON} (")
    assert again.splitlines()[1:] == log.splitlines()[-2:]


def test_a_locked_project_is_imported_from_the_jobs_own_tree(jobs: Jobs):
    jobs.use_uv()
    jobs.write(
        "pyproject.toml",
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["coal"]\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[tool.uv]\nfind-links = ["wheels"]\nno-index = true\n',
    )
    jobs.write("src/mine/__init__.py", "")
    shutil.copytree(jobs.folder / "wheels", jobs.project / "wheels")
    environ = {name: text for name, text in jobs.environ.items() if name in ("PATH", "HOME")}
    subprocess.run([UV, "lock", "--offline", "--quiet"], cwd=jobs.project, env=environ, check=True)
    before = sorted(jobs.project.rglob("*"))
    del jobs.environ["UV_FIND_LINKS"], jobs.environ["UV_NO_INDEX"]
    code, log = jobs.run(
        "python -c 'import coal, mine; print(mine.__file__)';"
        " uv run python -c 'import sys; print(sys.prefix)'",
        PIT_VENV_FILE="uv.lock",
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert code == 0, log
    [venv] = jobs.venvs.glob("*/venv")
    assert log.endswith(f"{jobs.project}/src/mine/__init__.py\n{venv}\n")
    assert sorted(jobs.project.rglob("*")) == before, "nothing is written into the project"


def test_processes_at_the_same_time_share_one_build(jobs: Jobs):
    jobs.use_uv()
    outputs = [jobs.folder / f"at-once{number}" for number in range(3)]
    running = [jobs.start(SHOW, output) for output in outputs]
    assert [process.wait(100) for process in running] == [0, 0, 0]
    logs = [output.read_text() for output in outputs]
    assert sum("venv: building" in log for log in logs) == 1
    assert len({log.splitlines()[-1] for log in logs}) == 1


def test_what_a_killed_builder_left_is_built_again_once_nobody_writes_there(
    jobs: Jobs, eventually: Eventually
):
    jobs.use_uv(HANGS_ONCE.format(folder=jobs.folder, uv=UV))
    first = jobs.start(SHOW, jobs.folder / "first")
    hung = jobs.folder / "hung"
    eventually(lambda: hung.exists() and hung.read_text().strip())
    first.kill()
    first.wait()
    second = jobs.start(SHOW, jobs.folder / "second")
    waiting = "venv: waiting for another process that builds it\n"
    eventually(lambda: (jobs.folder / "second").read_text() == waiting)
    assert is_alive(hung.read_text())
    os.kill(int(hung.read_text()), signal.SIGKILL)
    assert second.wait(100) == 0
    assert "venv: building from requirements.txt" in (jobs.folder / "second").read_text()


def test_a_failed_build_says_why_and_leaves_nothing_that_could_be_used(jobs: Jobs):
    jobs.use_uv()
    jobs.write("requirements.txt", "coal==7\n")
    code, log = jobs.run("echo never")
    assert code == FAILED
    assert "coal==7" in log.partition("venv: uv could not")[0], "the builder's own output"
    assert log.endswith(
        "venv: uv could not build the environment from requirements.txt (exit code 1); its output is above\n"
    )
    assert "never" not in log and not list(jobs.venvs.glob("*/complete"))


def test_a_node_without_network_says_so(jobs: Jobs):
    jobs.use_uv()
    for name in only_from(jobs.folder):
        del jobs.environ[name]
    nobody = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    code, log = jobs.run("echo never", **nobody)
    assert code == FAILED
    assert "(exit code 2): this node cannot reach the package index" in log


def test_an_environment_in_use_is_not_removed(jobs: Jobs, eventually: Eventually):
    jobs.use_uv()
    output = jobs.folder / "output"
    user = jobs.start("exec 3>&-; echo ready; read <$HOME/go", output)
    os.mkfifo(jobs.folder / "go")
    eventually(lambda: output.read_text().endswith("ready\n"))
    folders = {path.name for path in jobs.venvs.glob("*/complete")}
    cluster = jobs.folder / "cache" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "ann").symlink_to(jobs.venvs)
    evict(cluster.parent, 1, lambda _: 1 << 40)
    assert {path.name for path in jobs.venvs.glob("*/complete")} == folders != set()
    assert not (jobs.venvs / "downloads").exists(), "that is not in use"
    (jobs.folder / "go").write_text("go\n")
    user.wait(100)
    evict(cluster.parent, 1, lambda _: 1 << 40)
    assert not list(jobs.venvs.iterdir())


STANDARD_SIGNALS = (1 << 31) - 1


def test_the_command_gets_its_signals_and_variables_as_if_nothing_had_run_before(jobs: Jobs):
    jobs.use_uv()
    code, log = jobs.run("env | grep -c ^PIT_; grep SigIgn /proc/self/status")
    assert code == 0
    count, ignored = log.splitlines()[-2:]
    assert count == "0"
    # Signal 32 belongs to the C library, whose posix_spawn leaves it ignored.
    assert int(ignored.removeprefix("SigIgn:"), 16) & STANDARD_SIGNALS == 0


class TestKey:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "requirements.txt").write_text("coal\n-r more.txt\n")
        (tmp_path / "more.txt").write_text("iron  # heavy\n")
        return tmp_path

    def key(self, version: str = "", image: str = "") -> str:
        return Venv("requirements.txt", version, Path("/venvs"), image).home.name

    def test_it_depends_on_all_files_on_the_image_and_on_what_uv_and_pip_are_told(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ):
        keys = [self.key(), self.key(image="sha256:1")]
        (project / "more.txt").write_text("iron==2\n")
        keys.append(self.key())
        monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
        keys.append(self.key())
        assert len({*keys}) == 4
        assert self.key() == keys[-1]

    def test_a_python_that_is_not_there_is_named(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PATH", "/nowhere")
        assert self.key(PYTHON.rpartition(".")[0]) == self.key()
        with pytest.raises(Failed, match=r"there is no Python 3\.99 here, and no uv that could download it"):
            self.key("3.99")

    @pytest.mark.parametrize("line", [".", "-e .", "-e ./lib", "lib", ".[dev]"])
    def test_a_directory_of_the_project_is_refused_because_it_differs_from_job_to_job(
        self, project: Path, line: str
    ):
        (project / "lib").mkdir()
        (project / "requirements.txt").write_text(f"coal\n{line}\n")
        with pytest.raises(Failed, match=r"installs the directory '(.|lib)' of the project"):
            self.key()
