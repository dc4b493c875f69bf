"""How tests are spread over several processes, and how patient they are."""

import hypothesis
import pytest

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests together, for they share fixtures; and all that use the one engine."""
    for item in items:
        shared = "docker" if "docker" in item.path.parts else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(shared))
