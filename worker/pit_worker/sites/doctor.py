"""What `pit-worker doctor` checks on a machine with Slurm."""

import shutil
from collections.abc import Iterator

from pit_worker.admin.doctor import Finding, Mark
from pit_worker.sites import slurm
from pit_worker.sites.base import SiteError

# Under these, what a killed pilot leaves survives the end of its allocation.
UNSAFE = ("proctrack/linuxproc", "proctrack/pgid")


def check_site() -> Iterator[Finding]:
    """Nothing where there is no Slurm."""
    if not shutil.which("scontrol"):
        return
    try:
        found = slurm.proctrack()
    except SiteError as error:
        # The packages alone say nothing: this need not be a login node.
        hint = "only for the agent of a site: is this a login node, and slurmctld up?"
        yield Finding("slurm", Mark.DOUBTFUL, str(error), hint)
        return
    if found in UNSAFE:
        text = f"ProctrackType is {found}, under which processes outlive `scancel`"
        yield Finding("slurm", Mark.BAD, text, "set ProctrackType=proctrack/cgroup in slurm.conf")
    else:
        yield Finding("slurm", Mark.GOOD, f"answers, with {found}")
