"""A worker runs a process with the Python environment that its order names."""

import sys
from pathlib import Path

from msgspec.structs import replace

from pit_protocol.beat import Order, OrderAction, Venv
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.support.wheels import UV, make_wheel, need_uv, only_from
from tests.worker.conftest import Eventually, Workers


def test_a_process_has_its_environment_and_variables_of_the_user_reach_the_builder(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, tmp_path: Path
):
    need_uv()
    make_wheel(tmp_path / "wheels", "coal")
    (data_root / "jobs/1/src/needs.txt").write_text("coal\n")
    (tmp_path / "bin").mkdir()
    for name, program in (("uv", UV), ("python3", Path(sys.executable))):
        (tmp_path / "bin" / name).symlink_to(program)
    workers.start(PIT_WORKER_SEARCH_PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    spec = a_spec("python -c 'import coal; print(coal.VERSION)'; echo $VIRTUAL_ENV")
    venv = Venv("needs.txt", "", "ann")
    spec = replace(spec, venv=venv, variables=only_from(tmp_path / "wheels"))
    head.order(Order(1, 1, OrderAction.RUN, spec=spec))
    end = eventually(lambda: head.end(1))
    assert end.exit_code == 0, head.log(1)
    place = tmp_path / "venvs" / head.cluster / "ann"
    assert place.stat().st_mode & 0o777 == 0o700
    [complete] = place.glob("*/complete")
    assert head.log(1).endswith(f"1.0\n{complete.parent}/venv\n")


def test_a_node_without_python_says_so(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path
):
    workers.start(PIT_WORKER_SEARCH_PATH="/nowhere")
    head.order(
        Order(1, 1, OrderAction.RUN, spec=replace(a_spec("echo never"), venv=Venv("needs.txt", "", "ann")))
    )
    assert eventually(lambda: head.end(1)).exit_code == 125
    assert head.log(1) == "venv: this node has no python3\n"
