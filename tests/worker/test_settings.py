"""Where settings come from, which source wins, and errors for wrong ones."""

from pathlib import Path

import pytest

from pit_worker import settings
from pit_worker.__main__ import main
from pit_worker.settings import SettingError, load, read_token

GIVEN = {"token_file": "t", "spool": "s"}


@pytest.fixture(autouse=True)
def no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "default_config", lambda: tmp_path / "default")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "worker.toml").write_text(
        'url = "https://head"\ntoken_file = "node.token"\nspool = "/s"\naddress = "n1"\ncgroups = false\n'
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("network_pool", "10.0.0.1/16", "network_pool: 10.0.0.1/16 has host bits set"),
        ("network_allow", "10.0.0.7:x", "network_allow: 'x' is not a port"),
        ("network_allow", "head.example.org", "network_allow: Expected 4 octets in 'head.example.org'"),
    ],
)
def test_invalid_addresses_are_reported(tmp_path: Path, name: str, text: str, told: str):
    given = {"url": "https://head", "token_file": "t", "spool": "s", "config": None}
    with pytest.raises(SettingError) as caught:
        load(given, {f"PIT_WORKER_{name.upper()}": text, "XDG_CONFIG_HOME": str(tmp_path)})
    assert str(caught.value) == told


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(config: Path):
    environ = {"PIT_WORKER_ADDRESS": "n2", "PIT_WORKER_SPOOL": "/of-environ"}
    chosen = load({"config": str(config), "spool": "/given"}, environ)
    assert (chosen.spool, chosen.address, chosen.url) == (Path("/given"), "n2", "https://head")
    assert (chosen.cgroups, chosen.log_level) == (False, "INFO")


def test_a_path_in_the_file_begins_in_its_directory(config: Path):
    assert load({"config": str(config)}, {}).token_file == config / "node.token"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("url = ", "is not valid TOML"),
        ('urls = "x"', "has no setting 'urls'; known are: url, token_file,"),
        ("url = 5", "url in .* must be a text, not 5"),
        ('cgroups = "perhaps"', "must be one of yes, on, .*not 'perhaps'"),
        ('runtime = "podman"', "must be one of process, docker, not 'podman'"),
        ("image_cache_gib = 1.5", "must be a whole number, not 1.5"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, content: str, text: str):
    (tmp_path / "worker.toml").write_text(content)
    with pytest.raises(SettingError, match=text):
        load({"config": str(tmp_path)}, {})


def test_a_number_out_of_its_bounds_is_named(config: Path):
    with pytest.raises(SettingError, match="image_cache_gib must be from 0 to 4194304, not -1"):
        load({"config": str(config)}, {"PIT_WORKER_IMAGE_CACHE_GIB": "-1"})


def test_a_directory_that_was_named_must_hold_the_file(tmp_path: Path):
    with pytest.raises(SettingError, match=r"there is no .*none/worker.toml; `pit-worker join` writes it"):
        load({"config": str(tmp_path / "none")}, {})


def test_plain_http_is_for_this_machine_only():
    assert load({**GIVEN, "url": "http://127.0.0.1:1"}, {}).address == "127.0.0.1"
    assert load({**GIVEN, "url": "https://head.example.org"}, {"PIT_WORKER_CGROUPS": "off"}).cgroups is False
    with pytest.raises(SettingError, match="plain http to head"):
        load({**GIVEN, "url": "http://head.example.org"}, {})


def test_a_missing_setting_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--url", "http://localhost:1"]) == 1
    assert capsys.readouterr().err == (
        "pit-worker: --token-file (or PIT_WORKER_TOKEN_FILE) is missing; "
        "`pit-worker join` saves it for good\n"
    )


@pytest.mark.parametrize("content", [None, "", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"])
def test_a_ca_file_without_a_certificate_is_reported_at_once(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("pit_n1_secret")
    if content is not None:
        (tmp_path / "ca").write_text(content)
    words = ["--token-file", f"{tmp_path}/token", "--spool", f"{tmp_path}/s", "--ca-file", f"{tmp_path}/ca"]
    assert main(["run", "--url", "https://localhost:1", *words]) == 1
    assert f"the ca_file {tmp_path}/ca" in capsys.readouterr().err


def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.token"
    file.write_text(f"pit_1_{'x' * 43}\n")
    for mode in (0o640, 0o604, 0o602):
        file.chmod(mode)
        with pytest.raises(SettingError, match=f"chmod 600 {file}"):
            read_token(file)
    file.chmod(0o600)
    assert read_token(file).startswith("pit_1_")
