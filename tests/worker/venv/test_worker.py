"""A worker runs a process with the Python environment that its order names."""

import shutil
import sys
from pathlib import Path

from msgspec.structs import replace

from pit_protocol.messages.beat import Account, Order, OrderAction, Venv
from tests.support.requirements import need_programs, need_system_rights
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


def test_each_user_has_environments_of_their_own_that_nobody_else_can_reach(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, tmp_path: Path
):
    need_uv()
    need_system_rights()
    need_programs("/usr/bin/python3")
    source = data_root / "jobs/1/src"
    make_wheel(source / "wheels", "coal")
    (source / "needs.txt").write_text("coal\n")
    (source / "bin").mkdir()
    shutil.copy(UV.resolve(), source / "bin/uv")  # where the user can reach it
    workers.start()
    seen = Path("/run/pit/job/src")
    values = {**only_from(seen / "wheels"), "PATH": f"{seen}/bin:/usr/bin:/bin"}
    for number, user in enumerate(("ann", "bob"), 1):
        others = tmp_path / "venvs" / head.cluster / "ann-200001"
        command = f"id -u; python -c 'import coal'; ls {others}; touch $VIRTUAL_ENV/lib/x; ls /run/pit/venvs"
        account = Account(200_000 + number, 200_000 + number)
        spec = replace(a_spec(command), venv=Venv("needs.txt", "", user), variables=values, account=account)
        head.order(Order(number, 1, OrderAction.RUN, spec=spec))
        end = eventually(lambda number=number: head.end(number))
        assert end.exit_code == 0, head.log(number)
        assert "venv: building from needs.txt" in head.log(number)
        assert f"\n{account.uid}\n" in head.log(number)
        assert head.log(number).count("Permission denied") == 2, head.log(number)
        place = tmp_path / "venvs" / head.cluster / f"{user}-{account.uid}"
        assert {path.stat().st_uid for path in place.glob("*")} == {account.uid}
        assert place.stat().st_mode & 0o777 == 0o700
