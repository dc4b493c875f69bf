"""How tests are spread over several processes, and how patient they are."""

import hypothesis
import pytest

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

# The longest first: one that is left for the end runs while the other processes have nothing to do.
LONGEST = ("docker", "e2e", "worker", "head", "client", "unit")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests together, because they share fixtures."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=_rank)  # stable: a file's tests keep their order


def _rank(item: pytest.Item) -> int:
    folder = next((part for part in item.path.parts if part in LONGEST), "unit")
    return LONGEST.index(folder)
