"""`pit show` of users, groups, nodes, aliases, tokens, the audit and the connection."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead
from tests.support.stubs.users import SETTLED_AT, a_group, a_node, a_resource, a_token, a_user


def test_me(connected: StubHead, pit_command: Pit) -> None:
    assert pit_command("show", "me").stdout == (
        "Username:       anna\n"
        "Full name:      Anna A.\n"
        "E-mail address: anna@example.org\n"
        "Groups:         ml, students\n"
        "Autoshare:      students\n"
        "Git hosts:      -\n"
        "Quota:          -\n"
        "Admin:          no\n"
        "State:          active\n"
        "Since:          2025-12-06 05:46:40\n"
    )


def test_a_quota_is_shown_if_the_head_sends_it(connected: StubHead, pit_command: Pit) -> None:
    bob = {"name": "bob", "full_name": "Bob", "groups": ["ml"], "quota": "100G"}
    connected.people.records["users"]["bob"] = bob
    connected.people.records["groups"]["ml"] = a_group("ml", members=["bob"])
    assert pit_command("show", "user:bob").stdout.splitlines()[-1] == "Quota:     100G"
    assert pit_command("show", "group:ml").stdout.splitlines()[-1] == "Quota:      -"


def test_another_user_has_only_public_fields(connected: StubHead, pit_command: Pit) -> None:
    connected.people.records["users"]["bob"] = {"name": "bob", "full_name": "Bob, B.", "groups": []}
    assert pit_command("show", "user:bob").stdout == ("Username:  bob\nFull name: Bob, B.\nGroups:    -\n")


def test_users(connected: StubHead, pit_command: Pit) -> None:
    connected.people.records["users"] = {
        "anna": a_user(admin=True),
        "bob": {"name": "bob", "full_name": "\x1b[2J", "groups": []},
    }
    assert pit_command("show", "users").stdout.splitlines() == [
        "USER  FULL NAME  STATE   ADMIN  GROUPS",
        "anna  Anna A.    active  yes    ml, students",
        "bob   \\x1b[2J    -       -      -",
    ]


def test_groups(connected: StubHead, pit_command: Pit) -> None:
    mine = a_group("ml", title="Learners", members=["anna", "bob"], nodes=["n0", "n1:0"])
    other = {"name": "other", "title": "", "nodes": []}
    connected.people.records["groups"] = {"ml": mine, "other": other}
    assert pit_command("show", "groups").stdout.splitlines() == [
        "GROUP  TITLE     MEMBERS               NODES",
        "ml     Learners  anna, bob             n0, n1:0",
        "other  -         (for members to see)  -",
    ]
    assert pit_command("show", "group:ml").stdout.splitlines() == [
        "Group name: ml",
        "Title:      Learners",
        "Members:    anna, bob",
        "Nodes:      n0, n1:0",
        "Quota:      -",
    ]


def test_aliases(connected: StubHead, pit_command: Pit) -> None:
    connected.people.records["aliases"] = {"gtx1070": {"name": "gtx1070", "model": "GeForce GTX 1070"}}
    assert pit_command("show", "aliases").stdout == "ALIAS    MODEL\ngtx1070  GeForce GTX 1070\n"
    assert pit_command("show", "alias:gtx1070").stdout == "Alias: gtx1070\nModel: GeForce GTX 1070\n"


def test_nodes(connected: StubHead, pit_command: Pit) -> None:
    new = a_node(
        "n1", state="new", cores=0, memory_mib=0, slots=8, free_slots=8, resources=[],
        runtime="process", run_as="lab",
    )  # fmt: skip
    shared = a_node("n2", runtime="process", run_as="lab")
    connected.people.records["nodes"] = {"n0": a_node(), "n1": new, "n2": shared}
    assert pit_command("show", "nodes").stdout.splitlines() == [
        "NODE  STATE   FREE SLOTS  FREE CORES  FREE MEMORY   RUNTIME         RESOURCES",
        "n0    online  15 of 16    6.5 of 8    48 of 64 GiB  docker          2:gtx1070 (1 free)",
        "n1    new     8 of 8      -           -             -               -",
        "n2    online  15 of 16    6.5 of 8    48 of 64 GiB  process as lab  2:gtx1070 (1 free)",
    ]


def test_a_node_with_its_resources(connected: StubHead, pit_command: Pit) -> None:
    resources = [
        a_resource(0),
        a_resource(1, kind="nvidia-a100", model="NVIDIA A100", aliases=["a100"], groups=["ml"], job=12),
    ]
    connected.people.records["nodes"]["n0"] = a_node(groups=["ml", "students"], resources=resources)
    lines = pit_command("show", "node:n0").stdout.splitlines()
    assert lines[:2] == ["Node name:   n0", "State:       ONLINE"]
    assert "Jobs run as: their users" in lines
    assert lines[-5:] == [
        "Groups:      ml, students",
        "Jobs:        -",
        "Resources:",
        '  0: "GeForce GTX 1070" aka "gtx1070" (cuda 0)',
        '  1: "NVIDIA A100" aka "nvidia-a100" or "a100" (cuda 1), for ml, held by job 12',
    ]


def test_a_gpu_in_trouble_says_why(connected: StubHead, pit_command: Pit) -> None:
    node = a_node(resources=[a_resource(trouble="is used by pid 4711 (python3), 3,021 MiB"), a_resource(1)])
    connected.people.records["nodes"]["n0"] = node
    (line,) = [line for line in pit_command("show", "node:n0").stdout.splitlines() if "cuda 0" in line]
    assert line.endswith(", out of use: it is used by pid 4711 (python3), 3,021 MiB")
    assert "2:gtx1070 (1 free, 1 out of use)" in pit_command("show", "nodes").stdout


def test_tokens(connected: StubHead, pit_command: Pit) -> None:
    connected.people.tokens = [a_token(7, current=True), a_token(12, label="", last_used_at=SETTLED_AT)]
    assert pit_command("show", "tokens", "user=*").stdout.splitlines() == [
        "   TOKEN  USER  LABEL   CREATED     LAST USED            EXPIRES",
        "*      7  anna  laptop  2025-12-06  -                    2025-12-07",
        "      12  anna  -       2025-12-06  2025-12-06 05:46:40  2025-12-07",
    ]
    assert connected.calls[-1].query == {"user": "*"}


def test_the_audit(connected: StubHead, pit_command: Pit) -> None:
    entry = {"id": 1, "at": SETTLED_AT, "actor": "anna", "act": "user changed", "object": "user:bob"}
    connected.people.entries = [{**entry, "detail": "admin=yes", "address": ""}]
    result = pit_command("show", "audit", "actor=anna", "object=user:bob", "limit=5")
    assert result.stdout.splitlines() == [
        "TIME                 ACTOR  ACT           OBJECT    DETAIL     ADDRESS",
        "2025-12-06 05:46:40  anna   user changed  user:bob  admin=yes  -",
    ]
    assert connected.calls[-1].query == {"actor": "anna", "object": "user:bob", "limit": "5"}


def test_the_connection_needs_no_token(home: Path, pit_command: Pit) -> None:
    (home / ".pitconnect.txt").write_text("https://pit.example.org/\n")
    assert pit_command("show", "connect").stdout == "https://pit.example.org\n"
    shown = json.loads(pit_command("show", "connect", "--json").stdout)
    assert shown == {"url": "https://pit.example.org", "certificates": [], "pins": []}


def test_a_node_in_trouble_says_why(connected: StubHead, pit_command: Pit) -> None:
    connected.people.records["nodes"]["n0"] = a_node(trouble="its Docker engine does not answer")
    assert "\nTrouble:     its Docker engine does not answer\n" in pit_command("show", "node:n0").stdout
    assert "State:       IN TROUBLE\n" in pit_command("show", "node:n0").stdout
    lines = pit_command("show", "nodes").stdout.splitlines()
    assert lines[1].startswith("n0    in trouble  15 of 16")
    assert lines[2] == "     takes no new processes: its Docker engine does not answer"


def test_the_reason_of_a_draining_node_is_shown(connected: StubHead, pit_command: Pit) -> None:
    connected.people.records["nodes"]["n0"] = a_node(state="draining", reason="new PSU")
    assert pit_command("show", "nodes").stdout.splitlines()[2] == "     new PSU"
    assert "State:       DRAINING\nReason:      new PSU\n" in pit_command("show", "node:n0").stdout


def test_a_node_lists_its_jobs_and_names_the_users_of_those_one_may_not_see(
    connected: StubHead, pit_command: Pit
) -> None:
    jobs = [{"number": 12, "user": "anna", "title": "Sweep"}, {"number": None, "user": "bob", "title": None}]
    held = a_resource(0, free=False, user="bob")
    connected.people.records["nodes"]["n0"] = a_node(jobs=jobs, resources=[held])
    lines = pit_command("show", "node:n0").stdout.splitlines()
    begin = lines.index("Jobs:")
    assert [line.split(None, 1)[1] for line in lines[begin + 1 : begin + 3]] == [
        "anna, Sweep",
        "a job of bob",
    ]
    assert lines[-1].endswith(", held by a job of bob")


def test_what_is_kept_for_others_is_not_free_for_you(connected: StubHead, pit_command: Pit) -> None:
    resources = [a_resource(0, groups=["ml"], usable=False), a_resource(1)]
    connected.people.records["nodes"]["n0"] = a_node(resources=resources)
    assert "2:gtx1070 (1 free for you)" in pit_command("show", "nodes").stdout


@pytest.mark.parametrize(
    "what", ["me", "users", "groups", "aliases", "nodes", "tokens", "audit", "user:anna"]
)
def test_json_is_the_answer_of_the_head(connected: StubHead, pit_command: Pit, what: str) -> None:
    result = pit_command("show", what, "--json")
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout), dict)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["planet:mars"], "there is no 'planet:mars' to show\nwrite me, users"),
        (["token:7"], "there is no 'token:7' to show"),
        (["user:"], "user: has no name"),
        (["node:.."], "'..' is not a valid node name"),
        (["job:x"], "'x' is not a job number"),
        (["users", "a=b"], "users takes no filter; only jobs, tokens, audit do"),
        (["audit", "colour=red"], "'colour=red' is not a filter; write actor, object, limit"),
        (["audit", "limit=x"], "limit is a number, not 'x'"),
        (["tokens", "anna"], "'anna' is not a filter; write user, each with =VALUE"),
    ],
)
def test_a_wrong_word_is_a_usage_error(
    connected: StubHead, pit_command: Pit, words: list[str], sentence: str
) -> None:
    result = pit_command("show", *words)
    assert (result.exit_code, connected.calls) == (2, [])
    assert result.stderr.startswith(f"pit: {sentence}")
