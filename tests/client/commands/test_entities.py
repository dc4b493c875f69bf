"""`pit add`, `set`, `get`, `remove` and the group commands."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.client.conftest import Pit
from tests.support.certificates import Certificate
from tests.support.stubs.head import StubHead, an_ended, first
from tests.support.stubs.users import JOIN_CODE, a_node, a_user


def last_set(head: StubHead) -> dict[str, str]:
    properties: dict[str, str] = json.loads(head.calls[-1].body)["set"]
    return properties


class TestAdd:
    def test_properties_are_sent_as_typed(self, connected: StubHead, pit_command: Pit) -> None:
        words = ("full_name=Bob = B.", "password=-", "admin=yes")
        result = pit_command("add", "user:bob", *words, input="s=cret\n")
        assert (result.exit_code, result.stdout) == (0, "user:bob is added\n")
        assert last_set(connected) == {"full_name": "Bob = B.", "password": "s=cret", "admin": "yes"}
        assert connected.calls[-1].method == "PUT"

    def test_on_a_terminal_what_is_missing_is_asked_for(
        self, connected: StubHead, pit_command: Pit, terminal: None
    ) -> None:
        result = pit_command("add", "user:bob", "email=b@example.org", input="Bob B.\nsecret\nsecret\n")
        assert result.exit_code == 0
        assert last_set(connected) == {"email": "b@example.org", "full_name": "Bob B.", "password": "secret"}
        assert "secret" not in result.output
        assert pit_command("add", "alias:gtx1070", input="GeForce GTX 1070\n").exit_code == 0
        assert last_set(connected) == {"name": "GeForce GTX 1070"}

    def test_without_a_terminal_the_head_says_what_is_missing(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        result = pit_command("add", "alias:gtx1070")
        assert (result.exit_code, result.stderr) == (1, "pit: name is missing\n")

    def test_json_is_the_answer_of_the_head(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("add", "group:students", "title=All of them", "--json")
        assert json.loads(result.stdout) == connected.people.records["groups"]["students"]

    def test_an_unknown_property_is_answered_by_the_known(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        result = pit_command("add", "group:students", "colour=red")
        assert result.stderr == "pit: there is no property colour\nthere are title\n"

    def test_a_value_of_a_megabyte_arrives(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("add", "group:students", "title=" + "x" * 2**20).exit_code == 0

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["everything"], "'everything' cannot be used here; write user:NAME, group:NAME"),
            (["planet:mars"], "'planet:mars' cannot be used here; write user:NAME"),
            (["job:12"], "'job:12' cannot be used"),
            (["token:12"], "'token:12' cannot be used"),
            (["user:"], "user: has no name; write user:NAME"),
            (["user:a/b"], "'a/b' is not a valid user name"),
            (["group:.."], "'..' is not a valid group name"),
            (["user:x\ny"], "'x\\ny' is not a valid user name"),
            (["user:\udcff"], "'\\udcff' is not a valid user name"),
            (["user:bob", "full_name"], "'full_name' is not an assignment; write PROPERTY=VALUE"),
            (["user:bob", "=x"], "'=x' is not an assignment"),
            (["user:bob", "email=a", "email=b"], "email is set twice"),
            (["user:bob", "--again"], "--again is for nodes"),
        ],
    )
    def test_a_wrong_word_is_a_usage_error(
        self, connected: StubHead, pit_command: Pit, words: list[str], sentence: str
    ) -> None:
        result = pit_command("add", *words)
        assert (result.exit_code, connected.calls) == (2, [])
        assert result.stderr.startswith(f"pit: {sentence}")

    def test_an_odd_name_arrives_unchanged(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("add", "group:ä b%2F?#", "title=x").exit_code == 0
        assert connected.calls[-1].path == "/groups/%C3%A4%20b%252F%3F%23"


class TestAddNode:
    def test_prints_the_join_command(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("add", "node:n0", "label.rack=r9")
        assert result.stdout == f"PIT_WORKER_JOIN_CODE={JOIN_CODE} pit-worker join {connected.url}\n"
        assert result.stderr == (
            "pit: run it on the machine that becomes node:n0; "
            "the code works once, until 2025-12-06 05:46:40\n"
        )

    def test_names_the_heads_certificate(
        self, known: StubHead, certificate: Certificate, pit_command: Pit
    ) -> None:
        line = f"PIT_WORKER_JOIN_CODE={JOIN_CODE} pit-worker join {known.url} {certificate.pin}\n"
        assert pit_command("add", "node:n0").stdout == line

    def test_a_known_node_needs_again(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.records["nodes"]["n0"] = a_node()
        result = pit_command("add", "node:n0")
        assert result.exit_code == 1
        assert result.stderr == (
            "pit: there is a node n0 already\n`pit add node:n0 --again` prints a new command\n"
        )
        result = pit_command("add", "node:n0", "--again", "--json")
        assert json.loads(result.stdout)["join_code"] == JOIN_CODE
        assert connected.calls[-1].query == {"again": "yes"}

    def test_a_code_cannot_do_anything_in_a_shell(self, connected: StubHead, pit_command: Pit) -> None:
        answer = {"node": a_node(), "join_code": "x; rm -rf ~\n", "expires_at": 0}
        connected.misbehave("PUT", "/nodes/n0", lambda handler, _: handler.send((201, answer)))
        assert pit_command("add", "node:n0").stdout.startswith("PIT_WORKER_JOIN_CODE='x; rm -rf ~\\x0a' pit-")


class TestSet:
    @pytest.mark.parametrize(
        ("entity", "path"),
        [("me", "/users/me"), ("node:n0", "/nodes/n0"), ("12", "/jobs/12"), ("job:12", "/jobs/12")],
    )
    def test_changes_what_is_named(
        self, connected: StubHead, pit_command: Pit, entity: str, path: str
    ) -> None:
        connected.people.records["nodes"]["n0"] = a_node()
        connected.add_job(12)
        word = {"/users/me": "autoshare=", "/nodes/n0": "state=draining"}.get(path, "title=Second light")
        assert pit_command("set", entity, word).exit_code == 0
        call = connected.calls[-1]
        assert (call.method, call.path, last_set(connected)) == ("PATCH", path, dict([word.split("=")]))

    @pytest.mark.parametrize("word", ["password", "password="])
    def test_a_new_password_is_asked_for_twice(
        self, connected: StubHead, pit_command: Pit, terminal: None, word: str
    ) -> None:
        result = pit_command("set", "me", word, input="old secret\nnew secret\nnew secret\n")
        assert (result.exit_code, result.stdout) == (0, "user:me is changed\n"), result.stderr
        assert last_set(connected) == {"password": "new secret", "old_password": "old secret"}
        assert "new secret" not in result.output

    def test_both_passwords_come_from_stdin_a_line_each(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("set", "me", "password=-", input="old secret\nnew secret\n").exit_code == 0
        assert last_set(connected) == {"password": "new secret", "old_password": "old secret"}

    def test_without_a_terminal_a_password_must_be_given(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("set", "me", "password")
        assert (result.exit_code, connected.calls) == (1, [])
        assert result.stderr.endswith("`password=-` reads it from stdin\n")

    def test_a_password_on_the_command_line_is_not_sent(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("set", "me", "password=secret")
        assert (result.exit_code, connected.calls) == (1, [])
        assert "secret" not in result.output

    def test_a_password_that_no_head_accepts_is_not_sent(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("set", "me", "password=-", input="old secret\n" + "x" * 73 + "\n")
        assert (result.exit_code, connected.calls) == (1, [])

    def test_nothing_to_set_is_a_usage_error(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("set", "me").exit_code == 2


class TestGet:
    @pytest.mark.parametrize(
        ("entity", "name", "value"),
        [
            ("me", "full_name", "Anna A."),
            ("user:anna", "admin", "no"),
            ("user:anna", "groups", "ml,students"),
            ("node:n0", "label.rack", "r9"),
            ("node:n0", "slots", "16"),
            ("alias:gtx1070", "name", "GeForce GTX 1070"),
            ("12", "title", "First light"),
            ("12", "outcome", ""),
        ],
    )
    def test_the_bare_value(
        self, connected: StubHead, pit_command: Pit, entity: str, name: str, value: str
    ) -> None:
        connected.people.records["nodes"]["n0"] = a_node()
        connected.people.records["aliases"]["gtx1070"] = {"name": "gtx1070", "model": "GeForce GTX 1070"}
        connected.add_job(12)
        assert pit_command("get", entity, name).stdout == f"{value}\n"

    def test_json_keeps_its_type(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("get", "me", "admin", "--json").stdout == '{"admin": false}\n'

    def test_a_value_is_sanitized(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.records["users"]["anna"]["full_name"] = "\x1b[2J"
        assert pit_command("get", "me", "full_name").stdout == "\\x1b[2J\n"

    def test_an_unknown_property_is_answered_by_the_known(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        result = pit_command("get", "me", "password")
        assert result.exit_code == 1
        assert result.stderr.startswith(
            "pit: user:me has no property 'password'\nits properties are name, full_name, groups,"
        )


class TestRemove:
    def test_one_failure_does_not_stop_the_others(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.records["users"]["bob"] = a_user("bob")
        connected.add_job(12, **an_ended())
        result = pit_command("remove", "user:bob", "user:carl", "job:12", "token:7")
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "user:bob is in the trash for 30 days; `pit restore 17` brings it back",
            "job:12 is in the trash for 30 days; `pit restore 18` brings it back",
            "token:7 is removed",
        ]
        assert result.stderr == "pit: there is no user carl\n"
        assert connected.people.gone == ["/users/bob", "/jobs/12", "/tokens/7"]

    def test_where_data_goes_to_the_trash_it_asks_on_a_terminal(
        self, connected: StubHead, pit_command: Pit, terminal: None
    ) -> None:
        connected.people.records["groups"]["ml"] = {}
        result = pit_command("rm", "group:ml", input="no\n")
        assert (result.exit_code, connected.people.gone) == (1, [])
        assert "Move group:ml to the trash, with all data?" in result.stderr
        assert pit_command("rm", "group:ml", "-y").exit_code == 0
        connected.people.records["nodes"]["n0"] = a_node()
        assert pit_command("rm", "node:n0", "--json").stdout == '{"removed": "node:n0"}\n'

    def test_the_own_trash_is_emptied_after_a_question(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.trash.add("job:12")
        assert "this deletes for good; add --yes" in pit_command("rm", "--purge", "trash").stderr
        assert pit_command("rm", "--purge", "trash", "-y").stdout == "the trash is deleted for good\n"
        assert connected.people.trash.purged == ["job:12"]

    def test_what_is_in_use_stays(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.busy = ["user anna is in use: job 12 has not ended"]
        result = pit_command("remove", "user:anna")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "pit: user anna is in use: job 12 has not ended\n"

    @pytest.mark.parametrize("flag", ["--drain", "--lost"])
    def test_only_nodes_are_drained_or_lost(self, connected: StubHead, pit_command: Pit, flag: str) -> None:
        result = pit_command("remove", "node:n0", "user:bob", flag)
        assert (result.exit_code, connected.calls) == (2, [])
        assert f"{flag} is for nodes" in result.stderr

    def test_the_jobs_of_a_lost_node_are_named(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.records["nodes"]["n0"] = a_node()
        connected.people.lost = [12, 13]
        result = pit_command("remove", "node:n0", "--lost")
        assert result.stdout.splitlines() == [
            "node:n0 is removed",
            "jobs 12, 13 are lost; processes that still run there are stopped when the node returns",
        ]
        assert connected.calls[-1].query == {"lost": "yes"}

    def test_drain_and_lost_exclude_each_other(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("remove", "node:n0", "--lost", "--drain")
        assert (result.exit_code, connected.calls) == (2, [])

    def test_an_unknown_kind_is_answered_by_the_known(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("remove", "planet:mars")
        assert result.exit_code == 2
        assert (
            "user:NAME, group:NAME, node:NAME, site:NAME, alias:NAME, job:NUMBER, token:NAME, trash:NAME"
            in result.stderr
        )


class TestDrain:
    def test_it_waits_for_the_nodes_processes(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.records["nodes"]["n0"] = a_node(free_slots=14)
        connected.people.busy = ["jobs 12, 13 run there", "job 13 runs there", "job 13 runs there"]
        result = pit_command("remove", "node:n0", "--drain")
        assert (result.exit_code, result.stdout) == (0, "node:n0 is removed\n")
        assert result.stderr == "pit: waiting: jobs 12, 13 run there\npit: waiting: job 13 runs there\n"
        assert connected.calls[0].method == "PATCH"
        assert json.loads(connected.calls[0].body) == {"set": {"state": "draining"}}

    def test_ctrl_c_leaves_it_draining(self, connected: StubHead, pit_env: dict[str, str]) -> None:
        connected.people.records["nodes"]["n0"] = a_node()
        connected.people.busy = ["job 12 runs there"] * 9
        child: list[subprocess.Popen[str]] = []
        interrupt = first(lambda: os.kill(child[0].pid, signal.SIGINT))
        connected.misbehave("GET", "/status", first(lambda: None), interrupt)
        command = [sys.executable, "-m", "pit", "remove", "node:n0", "--drain"]
        with subprocess.Popen(command, env=pit_env, stdout=-1, stderr=-1, text=True) as process:
            child.append(process)
            _, stderr = process.communicate(timeout=120)
        assert process.returncode == 130
        assert stderr.splitlines()[1:] == [
            "pit: node:n0 is left draining and not removed",
            "`pit remove node:n0 --drain` continues, `pit set node:n0 state=online` puts it back in service",
        ]


class TestGroups:
    @pytest.mark.parametrize(
        ("entity", "path"),
        [
            ("user:bob", "/users/bob"),
            ("me", "/users/me"),
            ("12", "/jobs/12"),
            ("node:n0", "/nodes/n0"),
            ("node:n0:1", "/nodes/n0/resources/1"),
        ],
    )
    @pytest.mark.parametrize("group", ["students", "group:students"])
    def test_in_and_out(
        self, connected: StubHead, pit_command: Pit, entity: str, path: str, group: str
    ) -> None:
        assert pit_command("add-group", entity, group).stdout.endswith(" is in group:students\n")
        assert connected.people.members == {(path, "students")}
        assert pit_command("remove-group", entity, group).stdout.endswith(" is not in group:students\n")
        assert connected.people.members == set()

    def test_json(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("add-group", "node:n0:1", "ml", "--json")
        assert json.loads(result.stdout) == {"entity": "node:n0:1", "group": "ml"}

    @pytest.mark.parametrize("entity", ["alias:x", "group:ml", "node:n0:x", "node::1", "user:", "x"])
    def test_a_wrong_word_is_a_usage_error(self, connected: StubHead, pit_command: Pit, entity: str) -> None:
        assert (pit_command("add-group", entity, "ml").exit_code, connected.calls) == (2, [])


def test_a_closed_account_says_what_becomes_of_its_jobs(connected: StubHead, pit_command: Pit) -> None:
    jobs = {"held": [17, 18], "stopping": [16]}
    connected.people.records["users"]["bob"] = a_user("bob", active=False, state="inactive", jobs=jobs)
    assert pit_command("set", "user:bob", "active=no").stdout.splitlines() == [
        "user:bob is changed",
        "2 jobs are held until `pit set user:bob active=yes`: 17, 18",
        "1 job is stopping: 16",
    ]
    assert "Jobs:           held: 17, 18; stopping: 16" in pit_command("show", "user:bob").stdout
