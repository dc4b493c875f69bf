"""A lab's first day, through the installed commands: people, groups, machines, and who may do what."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clusters.lab import PASSWORD, Lab, Person
from tests.support.clusters.local import eventually


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.start_head()
    yield lab
    lab.close()


@pytest.fixture
def root(lab: Lab) -> Person:
    """The first user, who found the head by its URL and its console."""
    root = Person(lab, "root")
    terminal = root.at_terminal("connect", lab.url)
    terminal.answer("Is this the head's fingerprint?", "y")
    terminal.answer("Setup code", lab.setup_code())
    terminal.answer("User name", "root")
    root.register(terminal)
    assert terminal.end() == 0, terminal.shown
    assert lab.pin() in terminal.shown
    assert f"connected to {lab.url} as root" in terminal.shown
    assert PASSWORD not in terminal.shown
    return root


def newcomer(lab: Lab, root: Person, name: str) -> Person:
    """A user who got the connect file from the admin, registered, and was approved."""
    person = Person(lab, name)
    (person.home / ".pitconnect.txt").write_text(root.ok("show", "connect"))
    terminal = person.at_terminal("status")
    terminal.answer("User name", name)
    terminal.answer("Password:", PASSWORD)
    terminal.answer(f"Register {name} as a new user?", "y")
    person.register(terminal, is_password_known=True)
    assert terminal.end() == 1
    assert "an admin has to approve it" in terminal.shown
    root.ok("set", f"user:{name}", "active=yes")
    terminal = person.at_terminal("login", "--user", name)
    terminal.answer("Password:", PASSWORD)
    assert terminal.end() == 0, terminal.shown
    return person


def machine(lab: Lab, root: Person, name: str) -> Path:
    """A machine that joined by the pasted line and works."""
    config = lab.join(root.ok("add", f"node:{name}"), name)
    lab.start_worker(config)
    eventually(lambda: root.json("show", f"node:{name}")["state"] == "online")
    return config


def test_from_an_empty_head_to_jobs_of_people_in_groups(lab: Lab, root: Person) -> None:
    assert root.json("show", "me")["admin"] is True
    anna, berta = newcomer(lab, root, "anna"), newcomer(lab, root, "berta")
    machine(lab, root, "n0")
    assert "ONLINE" in anna.ok("show", "node:n0")

    # What only admins may.
    for words in (
        ("add", "node:n1"),
        ("add", "group:mine"),
        ("set", "user:anna", "admin=yes"),
        ("set", "user:berta", "full_name=x"),
        ("remove", "user:berta"),
        ("set", "node:n0", "state=draining"),
        ("show", "audit"),
    ):
        assert "only" in anna.refused(*words), words

    # A job is its owner's alone, until a group shares it.
    root.ok("add", "group:students", "title=All students")
    for name in ("anna", "berta"):
        root.ok("add-group", f"user:{name}", "students")
    number = str(anna.run('echo "in $STUDENTS_GROUP_DIR"; echo kept >"$STUDENTS_GROUP_DIR/note"'))
    anna.ok("wait", number)
    assert "there is no job" in berta.refused("log", number)
    anna.ok("add-group", f"job:{number}", "students")
    assert "groups/students" in berta.ok("log", number)
    assert "only owners and admins may" in berta.refused("remove", f"job:{number}")
    root.ok("remove-group", "user:berta", "students")
    assert "there is no job" in berta.refused("show", number)
    note = lab.place / "head" / "data" / "groups" / "students" / "note"
    assert note.read_text() == "kept\n"

    # A node kept for a group is for its members.
    root.ok("add-group", "node:n0", "students")
    assert "reserved for groups that you are no member of" in berta.refused("run", "x", "[]", "-d", "true")
    assert anna.run("true")

    # What is in use stays, and says by whom.
    assert "members are anna" in root.refused("remove", "group:students")
    audit = root.ok("show", "audit")
    assert "user:berta" in audit and PASSWORD not in audit


def test_data_of_a_group_goes_in_and_out_over_tls(lab: Lab, root: Person, tmp_path: Path) -> None:
    anna, bert = newcomer(lab, root, "anna"), newcomer(lab, root, "bert")
    root.ok("add", "group:lab", "quota=64M")
    root.ok("add-group", "user:anna", "lab")
    body = os.urandom(20_000_001)
    (tmp_path / "sent").write_bytes(body)
    anna.ok("push", "group:lab", "data/model.bin", str(tmp_path / "sent"))
    root.ok("pull", "group:lab/data", str(tmp_path / "back"))
    assert (tmp_path / "back" / "model.bin").read_bytes() == body
    refused = bert.pit("ls", "group:lab")
    assert (refused.code, "only members and admins may" in refused.err) == (1, True)
    assert bert.pit("ls", "user:anna").code == 1
    (tmp_path / "sent").write_bytes(os.urandom(50_000_000))
    full = anna.pit("push", "group:lab", "more.bin", str(tmp_path / "sent"))
    assert full.code == 1
    assert "of its quota of 64.0 MiB" in full.err
    assert anna.json("ls", "group:lab")["entries"][0]["name"] == "data"


def test_a_machine_can_be_drained_and_removed(lab: Lab, root: Person) -> None:
    machine(lab, root, "n0")
    go = lab.place / "head/data/home/root/go"
    number = str(root.run('until [ -e "$USER_DIR/go" ]; do sleep 0.05; done'))
    eventually(lambda: root.json("show", number)["state"] == "running")
    assert f"job {number} has processes there" in root.refused("set", "node:n0", "state=maintenance")
    assert f"job {number} has processes there" in root.refused("remove", "node:n0")
    with ThreadPoolExecutor() as pool:
        removing = pool.submit(root.ok, "remove", "node:n0", "--drain")
        eventually(lambda: root.json("show", "node:n0")["state"] == "draining")
        go.touch()
        assert "node:n0 is removed" in removing.result()
    assert root.json("show", number)["outcome"] == "succeeded"
    assert root.json("show", "nodes") == {"nodes": []}
    eventually(lambda: "refuses this node's token" in lab.console())


@pytest.mark.threat("S19", "F24")
def test_a_second_worker_with_the_same_identity_fences_the_first(lab: Lab, root: Person) -> None:
    config = lab.join(root.ok("add", "node:n0"), "n0")
    first = lab.start_worker(config)
    eventually(lambda: root.json("show", "node:n0")["state"] == "online")
    other = lab.place / "etc-copy"
    other.mkdir()
    for file in config.iterdir():
        (other / file.name).write_text(file.read_text().replace(str(config), str(other)))
        (other / file.name).chmod(0o600)
    lab.start_worker(other)
    assert first.wait(120) == 1
    assert root.json("show", "node:n0")["epoch"] == 2
    root.ok("wait", str(root.run("true")))


@pytest.mark.threat("S56")
def test_a_foreign_projects_head_gets_no_token(lab: Lab, root: Person, tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    evil = Lab(tmp_path / "evil")
    evil.start_head()
    try:
        root.project.write(
            ".pitconnect.txt", f"{evil.url}\n{(evil.place / 'head/certificate.pem').read_text()}"
        )
        assert "pit trust" in root.refused("status")
        # The right certificate with the wrong address: nobody there has its key.
        mine = (lab.place / "head/certificate.pem").read_text()
        root.project.write(".pitconnect.txt", f"{evil.url}\n{mine}")
        assert "does not prove to be the one" in root.refused("status")
    finally:
        evil.close()
    token = (root.home / ".pituser.txt").read_text().split()[2]
    assert token not in evil.console()
    assert (root.home / ".pituser.txt").stat().st_mode & 0o777 == 0o600


def test_tokens_are_listed_revoked_and_renewed(lab: Lab, root: Person) -> None:
    (token,) = root.json("show", "tokens")["tokens"]
    assert token["current"] and token["last_used_at"]
    root.ok("logout")
    assert "there is no token for the head" in root.refused("status")
    terminal = root.at_terminal("login", "--user", "root")
    terminal.answer("Password:", "wrong password")
    terminal.answer("Register root as a new user?", "n")
    terminal.answer("Password:", PASSWORD)
    assert terminal.end() == 0, terminal.shown
    ids = [token["id"] for token in root.json("show", "tokens")["tokens"]]
    assert token["id"] not in ids
    root.ok("remove", f"token:{ids[0]}")
    assert "does not accept the token" in root.refused("status")


def test_two_heads_under_two_names(lab: Lab, root: Person, tmp_path: Path) -> None:
    root.ok("profile", "add", "lab")
    (tmp_path / "other").mkdir()
    other = Lab(tmp_path / "other")
    other.start_head()
    try:
        root.ok("profile", "add", "other", other.url, "--pin", other.pin())
        root.ok("profile", "use", "other")
        assert other.url in root.refused("status")
        assert root.pit("status", PIT_PROFILE="lab").code == 0
        root.ok("profile", "use", "lab")
        assert root.ok("show", "me")
        listed = root.json("profile", "show")["profiles"]
        assert [(p["name"], p["in_use"]) for p in listed] == [("lab", True), ("other", False)]
    finally:
        other.close()
