"""Commands that need Linux, on another system."""

from types import SimpleNamespace

import pytest

from tests.client.conftest import Pit


@pytest.mark.parametrize("command", ["up", "down", "mount home"])
def test_on_another_system_it_is_one_sentence(
    command: str, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.local.platform_check.sys", SimpleNamespace(platform="darwin"))
    result = pit_command(*command.split())
    assert (result.exit_code, result.stdout) == (1, "")
    sentence, hint, *rest = result.stderr.splitlines()
    assert sentence.startswith(f"pit: `pit {command.split()[0]}` needs Linux")
    assert sentence.endswith("this is macOS")
    assert hint and not rest
