"""Nodes: join codes, properties set by admins, and names of resources."""

from collections.abc import Callable

import pytest
from werkzeug.test import TestResponse

from pit_server.context import Head
from pit_server.scheduler.plan import Plan
from pit_server.services.jobs.processes import plan_commit
from pit_server.services.nodes.aliases import suggest
from pit_server.settings import Settings
from tests.support.clusters.head import (
    ONE_DATABASE,
    Caller,
    Person,
    Worker,
    a_submission,
    an_inventory,
    ended,
    skip_preparation,
)


def join(root: Person, code: str) -> Worker:
    answer = Caller(root.app, "n0", code).post("/node/join", json={})
    assert answer.status_code == 201, answer.json
    return Worker(root.app, answer.json["node"], answer.json["token"])


def test_a_machine_becomes_a_node_by_a_code_that_works_once(root: Person) -> None:
    added = root.ok(root.put("/nodes/n0"))
    assert added["node"]["state"] == "new"
    worker = join(root, added["join_code"])
    worker.hello(an_inventory())
    assert root.get("/nodes/n0").json["state"] == "online"
    again = Caller(root.app, "n0", added["join_code"]).post("/node/join", json={})
    assert (again.status_code, again.json["code"]) == (401, "unknown_token")
    assert root.put("/nodes/n0").json["code"] == "exists"


def test_only_one_of_many_machines_joins_with_a_code(
    root: Person, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    machine = Caller(root.app, "n0", root.ok(root.put("/nodes/n0"))["join_code"])
    tries = [in_thread(lambda: machine.post("/node/join", json={})) for _ in range(8)]
    assert sorted(answer().status_code for answer in tries) == [201, *[401] * 7]


def test_concurrently_set_labels_are_all_stored(
    root: Person, a_node: Callable[..., Worker], in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    a_node()
    tries = [in_thread(lambda i=i: root.patch("/nodes/n0", **{f"label.l{i}": "x"})) for i in range(12)]  # type: ignore[misc]
    assert {answer().status_code for answer in tries} == {200}
    assert len(root.get("/nodes/n0").json["labels"]) == 12


def test_the_job_that_holds_a_gpu_is_hidden_from_others(
    root: Person,
    a_user: Callable[..., Person],
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
) -> None:
    a_node(gpus={"A100": 1})
    number = a_placed_job("[a100]")
    berta = a_user("berta")
    (seen,) = root.get("/nodes/n0").json["resources"]
    (unseen,) = berta.get("/nodes/n0").json["resources"]
    assert (seen["job"], seen["free"], unseen["job"], unseen["free"]) == (number, False, None, False)
    waiting = berta.submit(request="[a100]")
    skip_preparation(root.app.extensions["pit"], waiting)
    behind = berta.submit(request="[a100]")
    skip_preparation(root.app.extensions["pit"], behind)
    root.app.extensions["pit"].scheduling()
    assert berta.job(waiting)["reason"] == "needs 1 a100, 0 free; a job of anna holds them"
    assert root.job(waiting)["reason"] == f"needs 1 a100, 0 free; job {number} (anna) holds them"
    assert berta.job(behind)["reason"] == f"waits behind job {waiting}, which needs the same"


def test_invalid_addresses_are_refused(root: Person, a_node: Callable[..., Worker]) -> None:
    a_node()
    for odd in ("-rf", "a b", "$(x)", "a;b", "x" * 300):
        assert root.patch("/nodes/n0", address=odd).json["code"] == "bad_address"
    assert root.put("/nodes/n0/resources/99999999999999999999/groups/g").status_code == 404


def test_a_join_code_is_valid_for_nothing_else(root: Person) -> None:
    machine = Caller(root.app, "n0", root.ok(root.put("/nodes/n0"))["join_code"])
    for method, path in (
        ("POST", "/node/session"),
        ("POST", "/node/beat"),
        ("GET", "/nodes"),
        ("GET", "/me"),
    ):
        answer = machine.call(method, path, json={})
        assert (answer.status_code, answer.json["code"]) == (403, "wrong_kind_of_token")
    worker = join(root, machine.token)
    assert worker.post("/node/join", json={}).status_code == 403


def test_a_second_machine_replaces_the_first(root: Person) -> None:
    first = join(root, root.ok(root.put("/nodes/n0"))["join_code"])
    first.hello(an_inventory())
    again = root.call("PUT", "/nodes/n0?again=yes", json={"set": {}})
    second = join(root, again.json["join_code"])
    assert first.post("/node/session", json={}).status_code == 401
    assert second.hello(an_inventory()).node == "n0"


def test_a_code_expires(root: Person, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    code = root.ok(root.put("/nodes/n0"))["join_code"]
    expiry = root.call("PUT", "/nodes/n0?again=yes", json={"set": {}}).json["expires_at"]
    monkeypatch.setattr("pit_server.api.http.guard.time.time", lambda: expiry + 1)
    answer = Caller(root.app, "n0", code).post("/node/join", json={})
    assert (answer.status_code, answer.json["code"]) == (401, "expired_token")


def test_a_draining_node_takes_no_new_processes_and_finishes_the_rest(
    head: Head, root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node()
    running = a_placed_job()
    (process,) = worker.orders()
    root.ok(root.patch("/nodes/n0", state="draining"))
    waiting = a_placed_job()
    assert (anna.job(waiting)["state"], anna.job(waiting)["reason"]) == (
        "waiting",
        "no node takes new jobs: n0 is draining",
    )
    refused = root.patch("/nodes/n0", state="maintenance")
    assert refused.json["message"] == f"node n0 is in use: job {running} has processes there"
    assert root.delete("/nodes/n0").json["code"] == "in_use"
    worker.beat(ended(process))
    assert anna.job(running)["outcome"] == "succeeded"
    assert root.ok(root.patch("/nodes/n0", state="maintenance"))["state"] == "maintenance"
    root.ok(root.patch("/nodes/n0", state="online"))
    head.scheduling()
    assert anna.job(waiting)["state"] == "starting"


def test_a_plan_for_a_node_that_was_closed_meanwhile_is_dropped(
    head: Head,
    root: Person,
    anna: Person,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_node()
    number = a_waiting_job()
    plans: list[Plan] = []
    monkeypatch.setattr(plan_commit, "commit", lambda _, plan, *_args, **_more: plans.append(plan) or [])
    head.scheduling()
    monkeypatch.undo()
    root.ok(root.patch("/nodes/n0", state="maintenance"))
    assert plan_commit.commit(head.database, plans[0], head.settings, now=1.0) == []
    assert anna.job(number)["state"] == "waiting"


def test_a_removed_node_is_gone_and_can_be_added_again(
    root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node()
    number = a_placed_job()
    worker.beat(*(ended(process) for process in worker.orders()))
    root.ok(root.delete("/nodes/n0"))
    assert root.get("/nodes").json == {"nodes": []}
    assert worker.post("/node/session", json={}).status_code == 401
    assert anna.job(number)["processes"][0]["node"] == "n0"
    assert anna.post("/jobs", json=a_submission()).json["message"] == "no node has joined the cluster yet"
    added = root.ok(root.put("/nodes/n0", **{"label.rack": "r9"}))
    assert (added["node"]["state"], added["node"]["labels"]) == ("new", {"rack": "r9"})


def test_slots_labels_and_address_are_set_and_reset(
    root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node()
    node = root.ok(root.patch("/nodes/n0", slots="3", address="10.0.0.7", **{"label.rack": "r9"}))
    assert (node["slots"], node["address"], node["labels"]) == (3, "10.0.0.7", {"rack": "r9"})
    worker.hello(an_inventory())  # the admin's settings stay
    a_placed_job("[]@rack=r9")
    (order,) = worker.orders().values()
    assert order.spec is not None and order.spec.env["HOST_GROUP0_PROCESS0"] == "10.0.0.7"
    node = root.ok(root.patch("/nodes/n0", slots="", address="", **{"label.rack": ""}))
    assert (node["slots"], node["address"], node["labels"]) == (16, "n0.lab", {})


@ONE_DATABASE
@pytest.mark.parametrize(
    "properties",
    [
        {"slots": "0"},
        {"slots": "-1"},
        {"slots": "many"},
        {"slots": "9" * 30},
        {"state": "offline"},
        {"label.": "x"},
        {"label.A": "x"},
        {"label.rack": "a,b"},
    ],
)
def test_invalid_values_are_refused(
    root: Person, a_node: Callable[..., Worker], properties: dict[str, str]
) -> None:
    a_node()
    assert root.patch("/nodes/n0", **properties).status_code == 422


@pytest.mark.parametrize(
    ("model", "alias"),
    [
        ("GeForce GTX 1070", "gtx1070"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx3080ti"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("NVIDIA TITAN V", "titanv"),
        ("Intel(R) Data Center GPU Max 1550", "datacentermax1550"),
        ("Quadro RTX 6000", "rtx6000"),
        ("a100", ""),
        ("123", ""),
        ("", ""),
    ],
)
def test_a_model_suggests_its_alias(model: str, alias: str) -> None:
    assert suggest(model) == alias


def test_requests_may_use_any_name_of_a_model(
    root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node(gpus={"GeForce GTX 1070": 3})
    root.ok(root.put("/aliases/cheap", name="GeForce GTX 1070"))
    numbers = [a_placed_job(f"[{name}]") for name in ("gtx1070", "cheap", "GeForceGTX1070")]
    assert [anna.job(number)["state"] for number in numbers] == ["starting"] * 3
    (resource, *_) = anna.get("/nodes/n0").json["resources"]
    assert resource["aliases"] == ["cheap", "gtx1070"]
    assert anna.job(numbers[0])["request"] == "[gtx1070]"
    waits = a_placed_job("[gtx1070,cheap]")
    assert anna.job(waits)["state"] == "waiting"


def test_two_models_do_not_share_an_alias(root: Person, a_node: Callable[..., Worker]) -> None:
    a_node(gpus={"NVIDIA A100-SXM4-40GB": 1})
    a_node("n1", gpus={"NVIDIA A100-SXM4-80GB": 1})
    assert root.get("/aliases").json["aliases"] == [{"name": "a100", "model": "NVIDIA A100-SXM4-40GB"}]
    root.ok(root.put("/aliases/a100-80", name="NVIDIA A100-SXM4-80GB"))
    assert root.get("/nodes/n1").json["resources"][0]["aliases"] == ["a100-80"]


def test_an_alias_in_use_cannot_be_removed(
    root: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    a_node(gpus={"GeForce GTX 1070": 1})
    number = a_waiting_job("[gtx1070]")
    answer = root.delete("/aliases/gtx1070")
    assert answer.json["message"] == f"alias gtx1070 is in use: job {number} has it in the request"
    assert root.patch("/aliases/gtx1070", name="Whatever").json["code"] == "in_use"
    root.ok(root.stop(number))
    root.ok(root.delete("/aliases/gtx1070"))


def test_an_alias_cannot_hide_a_model_of_that_name(root: Person, a_node: Callable[..., Worker]) -> None:
    a_node(gpus={"A100": 1})
    assert root.put("/aliases/a100", name="GeForce GTX 1070").json["code"] == "exists"


def test_changing_an_alias_does_not_release_its_gpu(
    head: Head, root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node(gpus={"GeForce GTX 1070": 1})
    a_placed_job("[gtx1070]")
    root.ok(root.put("/aliases/better", name="GeForce GTX 1070"))
    second = a_placed_job("[better]")
    assert anna.job(second)["state"] == "waiting"


def test_a_node_in_trouble_takes_no_new_processes_and_says_why(
    head: Head, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node()
    running_job = a_placed_job("[]")
    worker.ail("its Docker engine does not answer")
    node = anna.get("/nodes/n0").json
    assert (node["state"], node["trouble"]) == ("online", "its Docker engine does not answer")
    waiting = a_placed_job("[]")
    reason = "node n0 takes no new processes: its Docker engine does not answer"
    assert (anna.job(waiting)["state"], anna.job(waiting)["reason"]) == ("waiting", reason)
    worker.beat()
    assert anna.get("/nodes/n0").json["trouble"] == node["trouble"]
    assert [order.action for order in worker.orders().values()] == ["run"]
    assert anna.job(running_job)["state"] == "starting"
    worker.ail("")
    head.scheduling()
    assert anna.job(waiting)["state"] == "starting"


def test_only_nodes_that_the_job_may_use_are_named_with_their_trouble(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node("n0").ail("has no space left")
    a_node("n1", gpus={"A100": 1})
    assert anna.job(a_placed_job("[a100]@n1"))["state"] == "starting"
    faulty, usable = a_placed_job("[]@n0"), a_placed_job("[a100]@n1")
    assert anna.job(faulty)["reason"] == "node n0 takes no new processes: has no space left"
    assert anna.job(usable)["reason"] == "needs 1 a100, 0 free; job 1 holds them"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("draining", "waits for @n0, which is draining"),
        ("maintenance", "waits for @n0, which is in maintenance"),
    ],
)
def test_a_job_that_is_pinned_to_a_closed_node_says_how_it_is_closed(
    root: Person,
    anna: Person,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    state: str,
    reason: str,
) -> None:
    a_node("n0")
    a_node("n1").ail("has no space left")
    root.ok(root.patch("/nodes/n0", state=state))
    assert anna.job(a_placed_job("[]@n0"))["reason"] == reason
    both = "waits for @n0, which is {}; node n1 takes no new processes: has no space left"
    assert anna.job(a_placed_job("[]@n0,[]@n1"))["reason"] == both.format(reason.partition("which is ")[2])
