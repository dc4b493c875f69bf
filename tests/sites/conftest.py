"""A cluster with a Slurm site of two machines, for all tests of a process."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.slurm_site import SiteCluster, running_site
from tests.support.servers.slurm import SlurmNode

NODES = {"n1": SlurmNode(gpus={"a100": 2}), "n2": SlurmNode(gpus={"a100": 2})}


@pytest.fixture(scope="session")
def one_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteCluster]:
    with running_site(tmp_path_factory.mktemp("site"), NODES) as cluster:
        cluster.add_site(time="1h")
        yield cluster


@pytest.fixture
def hpc(one_site: SiteCluster) -> Iterator[SiteCluster]:
    """The site, without jobs, and with its agent running before and after."""
    yield one_site
    for job in one_site.get("/jobs")["jobs"]:
        if job["state"] != "ended":
            one_site.pit("stop", str(job["number"]))
    one_site.slurm.run("scancel", "--user=root")
    one_site.ensure_agent()
    one_site.ok("set", "site:hpc", "state=online", "time=1h", "keep=", "overflow=")
    one_site.await_idle()
