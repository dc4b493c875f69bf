"""Progress and errors of a pull, and which image is removed first."""

from pathlib import Path

import pytest

from pit_worker.runtime.docker.image_pull import Progress, explain, is_temporary
from pit_worker.runtime.docker.images import ImageUses


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("manifest for r.lab/x:1 not found: manifest unknown", "there is no image r.lab/x:1"),
        ("no credentials: unauthorized", "the registry r.lab does not give r.lab/x:1 to this node; "
         "an admin can log in with `docker login`"),
        ("pull access denied for x, no such repository", "the registry r.lab has no r.lab/x:1, or does "
         "not give it to this node (`docker login`)"),
        ("dial tcp 10.0.0.1:443: connect: connection refused", "the registry r.lab cannot be reached: "
         "connection refused"),
        ("dial tcp: lookup r: no such host", "the registry r.lab cannot be reached: this node cannot "
         "resolve its name"),
        ("net/http: TLS handshake timeout", "the registry r.lab cannot be reached: it timed out"),
        ("toomanyrequests: slow down", "the registry of r.lab/x:1 refuses more pulls for now"),
        ("write /var/lib: no space left on device", "this node has no space left for the image r.lab/x:1"),
        ("server gave HTTP response to HTTPS client", "the registry r.lab does not speak TLS; "
         "`insecure-registries` would allow that"),
        ("something else", "the image r.lab/x:1 could not be pulled: something else"),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence(said: str, sentence: str):
    assert explain("r.lab/x:1", said) == sentence


def test_an_image_without_a_registry_comes_from_docker_hub():
    assert "the registry docker.io cannot" in explain("lab/x", "connection refused")


@pytest.mark.parametrize(
    ("said", "passes"),
    [("connection refused", True), ("i/o timeout", True), ("toomanyrequests", True),
     ("manifest unknown", False), ("no space left on device", False), ("unauthorized", False)],
)  # fmt: skip
@pytest.mark.threat("F38")
def test_only_network_errors_are_temporary(said: str, passes: bool):
    assert is_temporary(said) is passes


def loading(layer: str, current: int, total: int) -> dict[str, object]:
    return {"id": layer, "status": "Downloading", "progressDetail": {"current": current, "total": total}}


def test_progress_lines_are_rate_limited():
    progress = Progress()
    for layer in ("a", "b"):
        assert progress.take({"id": layer, "status": "Pulling fs layer"}, now=0.0) is None
    assert progress.take(loading("a", 0, 50_000_000), now=0.1) == "0 % of 50.0 MB, 0 of 2 layers"
    assert progress.take(loading("a", 25_000_000, 50_000_000), now=0.5) is None  # a moment ago
    assert progress.take(loading("b", 0, 50_000_000), now=1.2) == "25 % of 100.0 MB, 0 of 2 layers"
    assert progress.take(loading("a", 26_000_000, 50_000_000), now=3.0) is None  # less than 5 percent
    assert progress.take(loading("a", 26_000_000, 50_000_000), now=12.0) == "26 % of 100.0 MB, 0 of 2 layers"
    progress.take({"id": "a", "status": "Pull complete"}, now=13.0)
    assert (
        progress.take({"id": "b", "status": "Pull complete"}, now=15.0) == "100 % of 100.0 MB, 2 of 2 layers"
    )


def test_a_thousand_events_are_few_lines():
    progress = Progress()
    events = (progress.take(loading("a", i, 1000), now=i * 0.01) for i in range(1000))
    assert len([line for line in events if line]) <= 11


@pytest.fixture
def uses(tmp_path: Path) -> ImageUses:
    uses = ImageUses(tmp_path / "images")
    for at, name in enumerate(("a", "b", "c")):
        uses.note(f"id-{name}", float(at), name=name, size=10)
    return uses


def test_the_least_recently_used_goes_first(uses: ImageUses):
    assert uses.list_beyond(30, newest="id-c") == []
    assert uses.list_beyond(29, newest="id-c") == [("id-a", "a")]
    uses.note("id-a", 9.0)
    assert uses.list_beyond(10, newest="id-c") == [("id-b", "b"), ("id-a", "a")]


def test_the_newest_stays_though_it_is_too_large_alone(uses: ImageUses):
    assert uses.list_beyond(1, newest="id-c") == [("id-a", "a"), ("id-b", "b")]


def test_an_image_that_pit_did_not_pull_is_not_remembered(uses: ImageUses, tmp_path: Path):
    uses.note("id-admins", 9.0)
    assert "id-admins" not in (tmp_path / "images").read_text()


def test_the_next_worker_remembers(uses: ImageUses, tmp_path: Path):
    uses.forget("id-b")
    assert ImageUses(tmp_path / "images").list_beyond(0, newest="") == [("id-a", "a"), ("id-c", "c")]


def test_an_unreadable_record_counts_as_empty(tmp_path: Path):
    (tmp_path / "images").write_text("{")
    assert ImageUses(tmp_path / "images").list_beyond(0, newest="") == []
