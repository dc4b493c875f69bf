"""Room for what is written: quotas, and disks that get full (F27, M12)."""

import io
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pit_protocol.messages.beat import OrderAction
from pit_protocol.problem import Problem
from pit_protocol.transport.tar_reader import FILE, Member
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_server.app import create_app, create_head
from pit_server.context import Head
from pit_server.services.files import trash
from pit_server.services.files.domains import Place
from pit_server.settings import Settings
from pit_server.store.files.disk_usage import measure
from tests.support.clusters.head import Person, Worker, a_chunk, running
from tests.support.clusters.head import ended as has_ended
from tests.support.domain_files import PART, home, names, route, send
from tests.support.requirements import need_system_rights

MIB = 1024 * 1024


@pytest.fixture
def folder(head: Head, anna: Person) -> Path:
    anna.get(route("home"))  # which makes it
    return home(head)


def part(who: Person, body: bytes, **query: object) -> TestResponse:
    return who.call("PUT", route("home", b"file"), data=body, query_string={"part": PART, **query})


class TestRoom:
    """Quotas, and a disk that gets full."""

    def test_a_full_quota_is_reported_with_usage_and_limit(
        self, folder: Path, head: Head, anna: Person, root: Person
    ) -> None:
        root.ok(root.patch("/users/anna", quota="1M"))
        anna.ok(send(anna, "home", b"first", b"x" * 600_000))
        answer = send(anna, "home", b"second", b"x" * 600_000)
        assert (answer.status_code, answer.json["code"]) == (507, "over_quota")
        assert "of its quota of 1.0 MiB" in answer.json["message"]
        assert names(anna, "home") == ["first"]
        gone = anna.ok(anna.delete(route("home", b"first")))
        refused = send(anna, "home", b"second", b"x" * 600_000).json
        assert (refused["code"], "empties the trash" in refused["hint"]) == ("over_quota", True)
        anna.ok(anna.delete(f"/trash/{gone['id']}"))
        trash.delete_purged(head.database, head.data)
        anna.ok(send(anna, "home", b"second", b"x" * 600_000))
        root.ok(root.patch("/users/anna", quota=""))
        anna.ok(send(anna, "home", b"third", b"x" * 600_000))

    def test_a_file_that_comes_in_parts_counts_as_a_whole(
        self, folder: Path, anna: Person, root: Person
    ) -> None:
        root.ok(root.patch("/users/anna", quota="1M"))
        anna.ok(send(anna, "home", b"first", b"x" * 600_000))
        assert part(anna, b"x" * 1000, offset=0, size=600_000).json["code"] == "over_quota"
        assert part(anna, b"x" * 300_000, offset=0).status_code == 202
        assert part(anna, b"x" * 300_000, offset=300_000).json["code"] == "over_quota"

    def test_parts_that_were_never_completed_count(self, folder: Path, anna: Person, root: Person) -> None:
        root.ok(root.patch("/users/anna", quota="1M"))
        for number in range(3):
            query = {"part": f"{number:016}", "offset": 0}
            answer = anna.call("PUT", route("home", b"x"), data=b"x" * 300_000, query_string=query)
            assert answer.status_code == 202
        assert send(anna, "home", b"whole", b"x" * 300_000).json["code"] == "over_quota"
        query = {"part": f"{0:016}", "offset": 200_000}  # sent anew in part: it is not there twice
        answer = anna.call("PUT", route("home", b"x"), data=b"x" * 200_000, query_string=query)
        assert answer.status_code == 202
        [used] = anna.ok(anna.get("/usage"))["domains"]
        assert used["size"] <= MIB
        for path in folder.iterdir():
            path.unlink()
        assert send(anna, "home", b"whole", b"x" * 300_000).status_code == 201

    @pytest.mark.parametrize("query", [{"part": PART}, {"tar": "yes"}])
    def test_a_body_of_unknown_length_does_not_get_past_a_quota(
        self, folder: Path, anna: Person, root: Person, query: dict[str, str]
    ) -> None:
        root.ok(root.patch("/users/anna", quota="1M"))
        member = Member("file", FILE, 0o644, 3 * MIB, 0.0, "")
        body = header(member) + b"x" * 3 * MIB
        answer = anna.call(
            "PUT", route("home", b"x"), input_stream=io.BytesIO(body), query_string=query,
            environ_overrides={"CONTENT_LENGTH": ""},
        )  # fmt: skip
        assert (answer.status_code, answer.json["code"]) == (507, "over_quota")
        assert measure(folder)[0] <= MIB + 64 * 1024

    def test_room_is_not_promised_twice(self, folder: Path, head: Head) -> None:
        place = Place("user:anna", folder, may_write=True, quota_mib=1)
        with head.quotas.reserve(place, 600_000) as reservation:
            with pytest.raises(Problem, match="user:anna uses"):
                head.quotas.require(place, 600_000)
            reservation.take(600_000)
        head.quotas.require(place, 600_000)  # nothing of it was really written
        with head.quotas.reserve(place, 600_000):
            pass
        head.quotas.require(place, MIB - 4096 * 4)

    def test_a_group_has_a_quota_too(self, a_group: Callable[..., None], anna: Person, root: Person) -> None:
        a_group("lab", "anna")
        assert root.ok(root.patch("/groups/lab", quota="2M"))["quota"] == "2M"
        assert send(anna, "group:lab", b"x", b"x" * 3 * MIB).json["code"] == "over_quota"
        assert anna.patch("/users/anna", quota="9T").status_code == 403
        assert root.patch("/groups/lab", quota="much").json["code"] == "bad_quota"

    @pytest.mark.threat("F27")
    def test_below_the_watermark_uploads_and_submissions_are_refused(
        self, settings: Settings, folder: Path, head: Head, anna: Person
    ) -> None:
        full = replace(head, quotas=type(head.quotas)(replace(settings, min_free_percent=99.0)))
        anna.app = create_app(full)
        assert send(anna, "home", b"x", b"x").json["code"] == "disk_full"
        assert anna.post("/jobs", json={}).status_code == 422  # not even looked at
        assert anna.get(route("home")).status_code == 200

    def test_usage_shows_ones_own_and_to_admins_all(
        self, folder: Path, anna: Person, root: Person, a_user: Callable[..., Person]
    ) -> None:
        bert = a_user("bert")
        bert.get(route("home"))
        anna.ok(send(anna, "home", b"x", b"x" * 10_000))
        [mine] = anna.ok(anna.get("/usage"))["domains"]
        assert (mine["domain"], mine["files"], mine["size"] >= 10_000) == ("user:anna", 1, True)
        assert [row["domain"] for row in root.ok(root.get("/usage"))["domains"]] == ["user:anna", "user:bert"]

    def test_packs_are_asked_for_room_before_their_first_byte(
        self, folder: Path, head: Head, anna: Person, root: Person
    ) -> None:
        root.ok(root.patch("/users/anna", quota="1M"))
        target = f"/uploads/{'a' * 64}"
        answer = anna.call("PUT", target, data=b"x", query_string={"offset": 0, "size": 2 * MIB})
        assert (answer.status_code, answer.json["code"]) == (507, "over_quota")
        assert not list(head.data.uploads().glob("*/*"))
        assert (
            anna.call("PUT", target, data=b"x" * 600_000, query_string={"size": 700_000}).status_code == 200
        )
        assert send(anna, "home", b"x", b"x" * 600_000).json["code"] == "over_quota"

    def test_what_is_announced_on_all_domains_must_fit_on_the_disk(self, folder: Path, head: Head) -> None:
        free, _ = head.quotas.free()
        one, other = (Place(name, folder, may_write=True) for name in ("user:anna", "group:lab"))
        with head.quotas.reserve(one, int(free * 0.6)), pytest.raises(Problem, match="reserved for the head"):
            head.quotas.require(other, int(free * 0.6))
        head.quotas.require(other, int(free * 0.6))

    def test_a_home_has_a_limit_of_files(
        self, settings: Settings, folder: Path, head: Head, anna: Person
    ) -> None:
        anna.app = create_app(replace(head, quotas=type(head.quotas)(replace(settings, max_files=3))))
        for name in (b"a", b"b"):
            anna.ok(send(anna, "home", name, b"x"))
        members = [header(Member(name, FILE, 0o644, 0, 0.0, "")) for name in ("c", "d")]
        answer = anna.call("PUT", route("home"), data=b"".join(sealed(members)), query_string={"tar": "yes"})
        assert (answer.status_code, answer.json["code"]) == (507, "too_many_files")
        assert names(anna, "home") == ["a", "b", "c"]
        answer = anna.call("PUT", route("home", b"new"), query_string={"directory": "yes"})
        assert answer.json["message"] == "user:anna has 3 files, and may have 3"


class TestFullDisk:
    """On a disk that is really full."""

    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        need_system_rights()
        place = tmp_path / "small"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=True)
        yield place
        subprocess.run(["umount", str(place)], check=True)

    @pytest.fixture
    def settings(self, small: Path, tmp_path: Path) -> Settings:
        return Settings(home=tmp_path / "home", data_root=str(small), min_free_percent=0.0, bcrypt_cost=4)

    def test_an_upload_that_does_not_fit_leaves_nothing(self, app: Flask, head: Head, anna: Person) -> None:
        big = io.BytesIO(b"x" * 8 * MIB)
        answer = anna.call(
            "PUT", route("home", b"big"), input_stream=big, query_string={"part": PART},
            environ_overrides={"CONTENT_LENGTH": ""},
        )  # fmt: skip
        assert (answer.status_code, answer.json["code"]) == (507, "disk_full")
        assert "the head's disk has" in answer.json["message"]
        assert list(home(head).iterdir()) == []
        assert send(anna, "home", b"fits", b"x" * MIB).status_code == 201
        assert anna.get(route("home", b"fits")).data == b"x" * MIB

    def test_a_file_that_misses_a_few_bytes_of_space_is_not_complete(
        self, small: Path, app: Flask, head: Head, anna: Person
    ) -> None:
        """The system writes what fits of the last piece, and calls that no error."""
        assert names(anna, "home") == []
        disk = os.statvfs(small)
        content = b"x" * (disk.f_bavail * disk.f_frsize + 1)
        member = Member("file", FILE, 0o644, len(content), 0.0, "")
        body = b"".join(sealed([header(member), content, padding(len(content))]))
        options = {"query_string": {"tar": "yes"}, "environ_overrides": {"CONTENT_LENGTH": ""}}
        answer = anna.call("PUT", route("home"), input_stream=io.BytesIO(body), **options)
        assert (answer.status_code, answer.json["code"]) == (507, "disk_full")
        assert list(home(head).iterdir()) == []

    @pytest.mark.threat("F27")
    def test_packs_and_data_of_nodes_that_do_not_fit_are_refused_with_a_sentence(
        self,
        small: Path,
        app: Flask,
        anna: Person,
        a_node: Callable[..., Worker],
        a_placed_job: Callable[..., int],
    ) -> None:
        whole = {"offset": 0, "size": 8 * MIB}
        answer = anna.call("PUT", f"/uploads/{'a' * 64}", data=b"x" * 8 * MIB, query_string=whole)
        assert (answer.status_code, answer.json["code"]) == (507, "disk_full")
        node = a_node("n0")
        number = a_placed_job(with_tree=True)
        node.orders()
        body = header(Member("file", FILE, 0o644, 8 * MIB, 0.0, "")) + b"x" * 8 * MIB
        answer = node.call(
            "PUT", f"/node/attempts/{number}/1/tree", query_string={"epoch": node.epoch},
            input_stream=io.BytesIO(body), environ_overrides={"CONTENT_LENGTH": ""},
        )  # fmt: skip
        assert (answer.status_code, answer.json["code"]) == (507, "disk_full")

    @pytest.mark.threat("F27")
    def test_beats_go_on_and_output_waits_for_room(
        self,
        small: Path,
        app: Flask,
        head: Head,
        anna: Person,
        a_node: Callable[..., Worker],
        a_placed_job: Callable[..., int],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        node = a_node("n0")
        number = a_placed_job(with_tree=True)
        process = next(iter(node.orders()))
        node.beat(running(process), chunks=[a_chunk(process, b"first\n")])
        with (small / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        rest = b"x" * 100_000
        for _ in range(2):
            [order] = node.beat(
                has_ended(process, log_size=6 + len(rest)), chunks=[a_chunk(process, rest, offset=6)]
            ).orders
            assert order.action is not OrderAction.FORGET and order.log_size < 6 + len(rest)
        assert anna.ok(anna.get(f"/jobs/{number}"))["state"] == "running"
        assert [r.getMessage() for r in caplog.records if r.name.startswith("pit_server")] == [
            "the disk is full: job output stays on the nodes until there is space"
        ]
        (small / "filler").unlink()
        known = order.log_size
        node.beat(
            has_ended(process, log_size=6 + len(rest)),
            chunks=[a_chunk(process, rest[known - 6 :], offset=known)],
        )
        assert anna.ok(anna.get(f"/jobs/{number}"))["outcome"] == "succeeded"
        assert caplog.records[-1].getMessage() == "the disk has space again"


def test_the_reserve_is_made_again_once_there_is_space(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", reserve_mib=1)
    head = create_head(settings)
    head.quotas.require_disk_space()
    assert (settings.home / "reserve").exists()
    head.quotas.set_disk_full(True)
    assert not (settings.home / "reserve").exists()
    head.quotas.set_disk_full(False)
    assert (settings.home / "reserve").stat().st_blocks * 512 >= MIB
    head.database.dispose()


@pytest.mark.threat("F27")
def test_the_reserve_is_laid_by_and_given_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", reserve_mib=1)
    head = create_head(settings)
    head.quotas.fill_reserve_file()
    assert (settings.home / "reserve").stat().st_blocks * 512 >= MIB
    assert head.quotas.release_reserve_file()
    assert not head.quotas.release_reserve_file()
    head.database.dispose()
