"""What becomes of the jobs of a user whose account is set inactive."""

from collections.abc import Callable

from pit_server.context import Head
from pit_server.services.users import tokens
from tests.support.clusters.head import Person, Worker, running, skip_preparation

HELD = "held, because user anna is not active; goes on after `pit set user:anna active=yes`"


def test_waiting_jobs_are_held_and_go_on_when_the_user_is_active_again(
    head: Head, anna: Person, root: Person, node: Worker, a_waiting_job: Callable[..., int]
) -> None:
    number = a_waiting_job()
    assert root.ok(root.patch("/users/anna", active="no"))["jobs"] == {"held": [number]}
    head.scheduling()
    record = root.job(number)
    assert (record["state"], record["reason"]) == ("waiting", HELD)
    assert "jobs" not in root.ok(root.patch("/users/anna", active="yes"))
    head.scheduling()
    assert root.job(number)["state"] == "starting"


def test_a_held_job_keeps_nothing_from_jobs_behind_it(
    head: Head, root: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    a_node(cores=2)
    a_waiting_job("[2:cpu]")
    root.ok(root.patch("/users/anna", active="no"))
    head.scheduling()
    behind = root.submit(request="[2:cpu]")
    skip_preparation(head, behind)
    head.scheduling()
    assert root.job(behind)["state"] == "starting"


def test_running_jobs_finish(
    anna: Person, root: Person, node: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job()
    (process,) = node.orders()
    node.beat(running(process))
    assert root.ok(root.patch("/users/anna", active="no"))["jobs"] == {"running": [number]}
    assert root.job(number)["state"] == "running"
    assert anna.get("/status").json["code"] == "inactive_user"


def test_running_jobs_stop_if_the_admin_says_so_and_waiting_ones_are_held(
    head: Head,
    root: Person,
    node: Worker,
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
) -> None:
    number, waiting = a_placed_job(), a_waiting_job()
    record = root.ok(root.patch("/users/anna", active="no", jobs="stop"))
    assert record["jobs"] == {"stopping": [number], "held": [waiting]}
    assert (root.job(number)["state"], root.job(number)["reason"]) == ("stopping", "by root")


def test_the_choice_needs_an_account_that_is_not_active(root: Person, anna: Person) -> None:
    answer = root.patch("/users/anna", jobs="stop")
    assert (answer.status_code, answer.json["hint"]) == (422, "`pit set user:anna active=no jobs=stop`")
    assert root.patch("/users/anna", active="no", jobs="kill").status_code == 422
    assert anna.patch("/users/me", jobs="stop").status_code == 403


def test_the_token_of_a_running_job_outlives_its_users_account(
    head: Head, root: Person, node: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job(with_tree=True)
    token = node.ok(node.post(f"/node/attempts/{number}/1/token", query_string={"epoch": node.epoch}))[
        "token"
    ]
    root.ok(root.patch("/users/anna", active="no"))
    with head.database.read() as session:
        assert tokens.find_caller(session, token, now=1.0)[0].name == "anna"
