"""`pit rm`, `pit restore` and `pit show trash`: jobs, users and groups in the trash, and deleted for good."""

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, an_ended
from tests.support.stubs.users import a_user


def test_a_range_of_jobs_goes_to_the_trash(connected: StubHead, pit_command: Pit) -> None:
    for number in (12, 13, 15):
        connected.add_job(number, **an_ended())
    result = pit_command("rm", "12-13", "job:14-15")
    assert connected.people.gone == ["/jobs/12", "/jobs/13", "/jobs/15"]
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "pit: there is no job 14")


def test_the_trash_says_what_is_in_it_and_until_when(connected: StubHead, pit_command: Pit) -> None:
    connected.people.trash.add("job:12")
    header, row = pit_command("show", "trash").stdout.splitlines()
    assert header.split() == ["ID", "REMOVED", "UNTIL", "BY", "DOMAIN", "PATH"]
    assert row.split()[0] == "17"
    assert row.endswith("job:12  all of it")


@pytest.mark.parametrize("word", ["17", "job:12"])
def test_a_job_is_restored_by_its_entry_or_its_name(connected: StubHead, pit_command: Pit, word: str) -> None:
    connected.people.trash.add("job:12")
    result = pit_command("restore", word)
    assert (result.exit_code, result.stdout) == (0, "job:12 is back\n")
    assert connected.people.trash.restored == ["job:12"]


def test_what_is_not_in_the_trash_does_not_stop_the_others(connected: StubHead, pit_command: Pit) -> None:
    connected.people.trash.add("job:12")
    result = pit_command("restore", "user:bob", "job:12")
    assert (result.exit_code, result.stdout) == (1, "job:12 is back\n")
    assert result.stderr == "pit: user:bob is not in the trash\n`pit show trash`\n"


def test_purge_deletes_for_good_what_is_there_and_what_is_in_the_trash(
    connected: StubHead, pit_command: Pit
) -> None:
    connected.add_job(12, **an_ended())
    connected.people.records["users"]["bob"] = a_user("bob")
    connected.people.trash.add("job:13")
    connected.people.trash.add("group:ml")
    result = pit_command("rm", "--purge", "-y", "12", "job:13", "user:bob", "trash:18")
    assert result.exit_code == 0, result.stderr
    assert connected.people.trash.purged == ["job:12", "job:13", "user:bob", "group:ml"]
    assert result.stdout.splitlines()[0] == "job:12 is deleted for good"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("words", [("job:12", "--purge"), ("trash:17",)])
def test_before_it_deletes_for_good_it_asks(
    connected: StubHead, pit_command: Pit, words: tuple[str, ...]
) -> None:
    connected.people.trash.add("job:12")
    result = pit_command("rm", *words, input="n\n")
    assert (result.exit_code, connected.people.trash.purged) == (1, [])
    assert f"Delete {words[0]} for good? Nobody can restore it." in result.stderr
    pit_command("rm", *words, input="y\n")
    assert connected.people.trash.purged == ["job:12"]


def test_without_a_terminal_deleting_for_good_needs_a_yes(connected: StubHead, pit_command: Pit) -> None:
    connected.people.trash.add("job:12")
    result = pit_command("rm", "job:12", "--purge")
    assert (result.exit_code, connected.people.trash.purged) == (2, [])
    assert "add --yes" in result.stderr


def test_nodes_cannot_be_purged(connected: StubHead, pit_command: Pit) -> None:
    result = pit_command("rm", "node:n0", "--purge", "-y")
    assert (result.exit_code, connected.calls) == (2, [])
