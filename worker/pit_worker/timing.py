"""Intervals and deadlines that depend on the machine, and that tests shorten."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The defaults are what production uses."""

    health_check_s: float = 10.0  # between two self-checks
    health_timeout_s: float = 20.0  # for one of them
    fault_pause_s: float = 60.0  # after starts that failed in a row, grows with each further failure
    start_patience_s: float = 120.0  # how long a start that fails is tried again
    disk_check_s: float = 2.0  # between two checks of the disks
    disk_rest: float = 20.0  # a measurement that took 1 s is repeated after this many seconds
    engine_check_s: float = 5.0  # between two checks of the Docker engine
    engine_timeout_s: float = 10.0  # for its answer to a check
    unkillable_s: float = 60.0  # after SIGKILL; what still runs then is reported as the node's fault
    gpu_check_s: float = 10.0  # between two health checks of the GPUs
    gpu_sample_s: float = 2.0  # between two samples of GPU usage
    use_sample_s: float = 10.0  # between two samples of what processes use of cores and memory
    use_report_s: float = 30.0  # between two reports of mean usage
    gpu_release_s: float = 30.0  # how long the end of a process waits for its GPUs to become idle
    gpu_release_check_s: float = 0.5  # between two checks whether they are
