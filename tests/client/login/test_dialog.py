"""The questions that a new machine and a new user are asked."""

import json
import os
import pty
import select
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import TOKEN, Call, Handler, StubHead
from tests.support.stubs.users import Answer

PASSWORD = "correct horse"
REGISTERED = f"tilman\n{PASSWORD}\nyes\nTilman Kamp\ntilman@example.org\n{PASSWORD}\n"


@pytest.fixture
def new(head: StubHead, home: Path, terminal: None) -> StubHead:
    """A head that the home names, and no token for it."""
    (home / ".pitconnect.txt").write_text(f"{head.url}\n")
    return head


def sent(head: StubHead, path: str) -> dict[str, str]:
    call: Call = head.called(path)[-1]
    return {name: value for name, value in json.loads(call.body).items() if name != "label"}


def say(body: dict[str, str], handler: Handler, answer: Answer) -> None:
    handler.send((201, body))


def test_any_command_asks_a_known_user_for_the_password(new: StubHead, home: Path, pit_command: Pit) -> None:
    new.people.passwords["tilman"] = PASSWORD
    result = pit_command("status", input=f"tilman\n{PASSWORD}\n")
    assert result.exit_code == 0
    assert result.stdout.startswith("JOB  S")
    asked = f"pit: you are not logged in at {new.url} yet\nUser name (existing or new): "
    assert result.stderr.startswith(asked)
    assert PASSWORD not in result.output and TOKEN not in result.output
    assert json.loads(new.called("/login")[0].body)["label"] == os.uname().nodename
    assert (home / ".pituser.txt").read_text() == f"{new.url} tilman {TOKEN}\n"
    assert (home / ".pituser.txt").stat().st_mode & 0o777 == 0o600
    assert pit_command("status", input="").exit_code == 0


def test_a_name_is_registered_only_after_a_password_was_tried(new: StubHead, pit_command: Pit) -> None:
    result = pit_command("status", input=REGISTERED)
    assert result.exit_code == 0
    assert [call.path for call in new.calls[:3]] == ["/", "/login", "/users"]
    assert sent(new, "/users") == {
        "name": "tilman",
        "full_name": "Tilman Kamp",
        "email": "tilman@example.org",
        "password": PASSWORD,
        "setup_code": "",
    }
    assert all(call.authorization is None for call in new.calls[:3])
    assert PASSWORD not in result.output


def test_a_wrong_password_can_be_tried_again(new: StubHead, pit_command: Pit) -> None:
    new.people.passwords["tilman"] = PASSWORD
    result = pit_command("status", input=f"tilman\nwrong\nno\ntilman\n{PASSWORD}\n")
    assert result.exit_code == 0
    assert "the head knows no user tilman with this password" in result.stderr


def test_after_three_tries_it_ends(new: StubHead, home: Path, pit_command: Pit) -> None:
    result = pit_command("status", input="tilman\nwrong\nno\n" * 3)
    assert (result.exit_code, len(new.called("/login"))) == (1, 3)
    assert not (home / ".pituser.txt").exists()


def test_where_registration_is_closed_it_is_not_offered(new: StubHead, pit_command: Pit) -> None:
    new.people.registration = "closed"
    result = pit_command("status", input="tilman\nwrong\n" * 3)
    assert (result.exit_code, len(new.called("/users"))) == (1, 0)
    assert "Register" not in result.stderr


def test_where_an_admin_must_approve_it_says_what_he_types(
    new: StubHead, home: Path, pit_command: Pit
) -> None:
    new.people.registration = "approve"
    result = pit_command("status", input=REGISTERED)
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "pit: tilman is registered, and an admin has to approve it before you can log in\n"
        "the admin types `pit set user:tilman active=yes`; then run `pit login`\n"
    )
    assert not (home / ".pituser.txt").exists()


class TestFirstAdmin:
    def test_is_asked_for_the_setup_code(self, new: StubHead, pit_command: Pit) -> None:
        new.people.needs_setup, new.people.registration = True, "closed"
        typed = f"blue-tree\ntilman\nTilman Kamp\n\n{PASSWORD}\n{PASSWORD}\n"
        result = pit_command("status", input=typed)
        assert result.exit_code == 0
        assert f"the head at {new.url} has no user yet; the first becomes its admin" in result.stderr
        assert (sent(new, "/users")["setup_code"], sent(new, "/users")["email"]) == ("blue-tree", "")
        assert new.called("/login") == []

    def test_is_told_of_a_wrong_code_before_all_other_questions(
        self, new: StubHead, home: Path, pit_command: Pit
    ) -> None:
        new.people.needs_setup = True
        result = pit_command("status", input="red\ngreen\nblack\n")
        assert result.exit_code == 1
        assert result.stderr.count("that is not the setup code") == 4  # three tries, and the end
        assert "Full name" not in result.stderr and "User name" not in result.stderr
        assert not (home / ".pituser.txt").exists()

    def test_may_try_another_code(self, new: StubHead, pit_command: Pit) -> None:
        new.people.needs_setup = True
        typed = f"red\nblue-tree\ntilman\nTilman Kamp\n\n{PASSWORD}\n{PASSWORD}\n"
        assert pit_command("status", input=typed).exit_code == 0


class TestPassword:
    def test_that_is_too_long_is_refused_before_it_is_sent(self, new: StubHead, pit_command: Pit) -> None:
        result = pit_command("status", input=f"tilman\n{'ä' * 37}\n")
        assert result.exit_code == 1
        assert "a password can have at most 72 bytes; this one has 74" in result.stderr
        assert new.called("/login") == []

    def test_with_nul_is_refused_before_it_is_sent(self, new: StubHead, pit_command: Pit) -> None:
        result = pit_command("status", input="tilman\na\0b\n")
        assert "a password cannot contain a NUL character" in result.stderr
        assert new.called("/login") == []

    def test_that_is_new_is_asked_for_again_if_it_cannot_be(self, new: StubHead, pit_command: Pit) -> None:
        begun = "tilman\nguess\nyes\nTilman Kamp\n\nanother guess\n"
        long, twice = f"{'x' * 73}\n", f"{PASSWORD}\n{PASSWORD}\n"
        result = pit_command("status", input=f"{begun}{long}{long}{PASSWORD}\nother\n{twice}")
        assert result.exit_code == 0
        assert sent(new, "/users")["password"] == PASSWORD

    def test_of_a_new_user_is_typed_once_and_repeated_once(self, new: StubHead, pit_command: Pit) -> None:
        result = pit_command("status", input=REGISTERED)
        assert (result.exit_code, result.stderr.lower().count("password:")) == (0, 2)

    def test_that_the_head_does_not_take_is_asked_for_again(self, new: StubHead, pit_command: Pit) -> None:
        refusal = {"code": "bad_password", "message": "this cannot be a password", "hint": "8 characters"}
        new.misbehave("POST", "/users", lambda handler, _: handler.send((422, refusal)))
        result = pit_command("status", input=f"{REGISTERED}{PASSWORD}2\n{PASSWORD}2\n")
        assert result.exit_code == 0
        assert "pit: this cannot be a password\n8 characters\n" in result.stderr
        assert sent(new, "/users")["password"] == f"{PASSWORD}2"


def test_a_head_that_gives_no_token_is_none(new: StubHead, home: Path, pit_command: Pit) -> None:
    for answer in ({"name": "a b", "token": "x"}, {"name": "a", "token": "x\ny"}, {"name": "a", "token": ""}):
        new.misbehave("POST", "/login", partial(say, answer))
        assert pit_command("status", input="a\nb\n").exit_code == 1
    assert not (home / ".pituser.txt").exists()


def test_ctrl_c_ends_it(new: StubHead, pit_command: Pit) -> None:
    assert pit_command("status", input="tilman\n").exit_code == 130  # the input ends


def test_on_a_real_terminal_nothing_secret_is_echoed(
    head: StubHead, home: Path, pit_env: dict[str, str]
) -> None:
    (home / ".pitconnect.txt").write_text(f"{head.url}\n")
    head.people.passwords["tilman"] = PASSWORD
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pit", "show", "me", "--json"]
    with subprocess.Popen(
        command, env=pit_env, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            for question, typed in ((b"new): ", b"tilman\n"), (b"Password: ", PASSWORD.encode() + b"\n")):
                while not seen.endswith(question):
                    assert select.select([ours], [], [], 30.0)[0], seen
                    seen += os.read(ours, 1024)
                os.write(ours, typed)
            stdout = process.stdout.read() if process.stdout else b""
        except BaseException:
            process.kill()  # leaving the block waits for its end
            raise
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(stdout)["name"] == "anna"
    assert PASSWORD.encode() not in seen
