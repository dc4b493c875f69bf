"""`pit login` and `pit logout`."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import TOKEN, StubHead, drop


@pytest.fixture
def named(head: StubHead, home: Path) -> StubHead:
    (home / ".pitconnect.txt").write_text(f"{head.url}\n")
    return head


class TestLogin:
    def test_by_dialogue_with_the_user_named(
        self, named: StubHead, home: Path, pit_command: Pit, terminal: None
    ) -> None:
        named.people.passwords["anna"] = "secret"
        result = pit_command("login", "--user", "anna", input="secret\n")
        assert (result.exit_code, result.stdout) == (0, f"logged in at {named.url} as anna\n")
        assert "User name" not in result.stderr
        assert (home / ".pituser.txt").read_text() == f"{named.url} anna {TOKEN}\n"

    def test_by_a_token_from_stdin(self, named: StubHead, home: Path, pit_command: Pit) -> None:
        result = pit_command("login", "--with-token", "--json", input=f"{TOKEN}\n")
        assert (result.exit_code, json.loads(result.stdout)["name"]) == (0, "anna")
        assert (home / ".pituser.txt").read_text() == f"{named.url} anna {TOKEN}\n"
        assert TOKEN not in result.output

    def test_a_wrong_token_is_not_stored(self, named: StubHead, home: Path, pit_command: Pit) -> None:
        for typed, why in (("pit_wrong_1\n", "does not accept this token"), ("a b\n", "that is not a token")):
            result = pit_command("login", "--with-token", input=typed)
            assert result.exit_code == 1
            assert why in result.stderr
            assert "pit_wrong_1" not in result.output
        assert not (home / ".pituser.txt").exists()

    def test_again_replaces_the_token(self, connected: StubHead, home: Path, pit_command: Pit) -> None:
        connected.token = "pit_new_1"
        assert pit_command("login", "--with-token", input="pit_new_1\n").exit_code == 0
        assert (home / ".pituser.txt").read_text() == f"{connected.url} anna pit_new_1\n"

    def test_without_a_terminal_it_says_how(self, named: StubHead, pit_command: Pit) -> None:
        result = pit_command("login")
        assert (result.exit_code, named.calls) == (1, [])
        assert "`pit login --with-token` reads a token from stdin" in result.stderr

    def test_a_token_has_its_user(self, named: StubHead, pit_command: Pit) -> None:
        assert pit_command("login", "--user", "anna", "--with-token").exit_code == 2


class TestLogout:
    def test_revokes_and_forgets(self, connected: StubHead, home: Path, pit_command: Pit) -> None:
        with (home / ".pituser.txt").open("a") as file:
            file.write("https://other.example.org anna pit_o_1\n")
        result = pit_command("logout")
        assert (result.exit_code, result.stdout) == (0, f"anna is logged out at {connected.url}\n")
        assert connected.people.gone == ["/tokens/current"]
        assert (home / ".pituser.txt").read_text() == "https://other.example.org anna pit_o_1\n"

    def test_works_where_the_head_does_not_know_the_token(
        self, connected: StubHead, home: Path, pit_command: Pit
    ) -> None:
        connected.token = "pit_new_1"
        result = pit_command("logout")
        assert (result.exit_code, (home / ".pituser.txt").read_text()) == (0, "")
        assert "the head no longer knew the token" in result.stderr

    def test_keeps_a_token_that_lives_on(self, connected: StubHead, home: Path, pit_command: Pit) -> None:
        connected.misbehave("DELETE", "/tokens/current", drop)
        assert pit_command("logout").exit_code == 1
        assert TOKEN in (home / ".pituser.txt").read_text()

    def test_of_nobody_says_so(self, named: StubHead, pit_command: Pit) -> None:
        result = pit_command("logout")
        assert result.exit_code == 1
        assert f"has no token for {named.url}" in result.stderr


def test_a_token_file_that_others_may_read_is_not_used(
    pit_command: Pit, connected: StubHead, home: Path
) -> None:
    (home / ".pituser.txt").chmod(0o640)
    result = pit_command("status")
    assert (result.exit_code, connected.calls) == (1, [])
    assert "other accounts of this machine may open it" in result.stderr and "`chmod 600 " in result.stderr
