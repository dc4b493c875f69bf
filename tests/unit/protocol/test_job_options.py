"""Job options that depend on one another."""

import pytest

from pit_protocol.job_options import JobOptions, check_placement
from pit_protocol.problem import Problem


def test_pack_and_spread_exclude_each_other() -> None:
    with pytest.raises(Problem, match="--pack and --spread exclude each other"):
        check_placement(JobOptions(pack=True, spread=True))


def test_a_rerun_can_place_a_job_another_way() -> None:
    assert JobOptions(spread=True).for_rerun({"pack": True}) == JobOptions(pack=True)
    assert JobOptions(spread=True).for_rerun({}) == JobOptions(spread=True)
