"""A Python environment in a container: built with the image's Python, as the user, for this image only."""

import os
import shutil
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pit_protocol.messages.beat import Venv
from tests.docker.conftest import ANN, Containers, add_image, make_tree
from tests.support.stubs.worker_head import StubHead
from tests.support.wheels import UV, make_wheel, need_uv, only_from
from tests.worker.conftest import Eventually

PYTHON = Path(sys.executable).resolve()
LEFT_OUT = ("__pycache__", "test", "*-packages", "config-*", "ensurepip", "idlelib", "tkinter", "lib2to3")


@pytest.fixture(scope="module")
def python_image(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with the Python that runs the tests, and uv."""
    need_uv()
    tree = make_tree(tmp_path_factory.mktemp("python") / "tree")
    for program in (PYTHON, UV.resolve()):
        linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for file in (program, *(Path(word) for word in linked.split() if word.startswith("/"))):
            inside = tree / str(file).lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, inside)
    library = sysconfig.get_path("stdlib")
    shutil.copytree(library, tree / library.lstrip("/"), ignore=shutil.ignore_patterns(*LEFT_OUT))
    (tree / "bin/python3").symlink_to(PYTHON)
    (tree / "bin/uv").symlink_to(UV.resolve())
    name = f"pit-test-{uuid.uuid4().hex[:8]}:1"
    add_image(engine, tree, name)
    yield name
    engine.images.remove(name, force=True)


def test_it_is_built_once_as_the_user_and_found_by_the_next_container(
    head: StubHead, containers: Containers, eventually: Eventually, python_image: str, data_root: Path
):
    if os.geteuid() != 0:
        pytest.skip("only root can run containers of other users")
    source = data_root / "jobs/1/src"
    make_wheel(source / "wheels", "coal")
    (source / "needs.txt").write_text("coal\n")
    command = "python -c 'import coal; print(coal.VERSION)'; echo $VIRTUAL_ENV; id -u"
    for process in (1, 2):
        containers.run(
            process,
            command,
            image=python_image,
            venv=Venv("needs.txt", "", "ann"),
            variables=only_from(Path("/pit/job/src/wheels")),
        )
        end = eventually(lambda process=process: head.end(process))
        assert end.exit_code == 0, head.log(process)
    assert "venv: building from needs.txt" in head.log(1)
    assert head.log(2).startswith("venv: from the cache: needs.txt")
    place = containers.spool.parent / "venvs" / head.cluster / f"ann-{ANN.uid}"
    [complete] = place.glob("*/complete")
    assert complete.stat().st_uid == place.stat().st_uid == ANN.uid
    lines = ["1.0", f"/pit/venvs/{complete.parent.name}/venv", str(ANN.uid)]
    assert head.log(1).splitlines()[-3:] == head.log(2).splitlines()[-3:] == lines


def test_an_image_without_python_is_named(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, "echo never", venv=Venv("needs.txt", "", "ann"))
    assert eventually(lambda: head.end(1)).exit_code == 125
    assert head.log(1) == "venv: this image has no python3\n"
