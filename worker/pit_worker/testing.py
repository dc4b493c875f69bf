"""The environment variables that only tests set; nothing else in the worker reads them.

- `PIT_CRASH_AT=label` or `label:n` kills the worker at a failpoint, the n-th time it is reached.
- `PIT_WATCH_SPEEDUP=20` checks the node, its disks and engine, and killed processes 20 times as often.
- `PIT_GPU_SPEEDUP=20` checks GPUs 20 times as often.
"""

from collections.abc import Mapping

from pit_protocol.system.failpoints import Failpoints
from pit_worker.timing import Timing

CRASH_AT = "PIT_CRASH_AT"
WATCH_SPEEDUP = "PIT_WATCH_SPEEDUP"
GPU_SPEEDUP = "PIT_GPU_SPEEDUP"


def read_failpoints(environ: Mapping[str, str]) -> Failpoints:
    return Failpoints(environ.get(CRASH_AT, ""))


def read_timing(environ: Mapping[str, str]) -> Timing:
    watch, gpu = float(environ.get(WATCH_SPEEDUP, "1")), float(environ.get(GPU_SPEEDUP, "1"))
    normal = Timing()
    return Timing(
        health_check_s=normal.health_check_s / watch,
        health_timeout_s=normal.health_timeout_s / watch,
        fault_pause_s=normal.fault_pause_s / watch,
        start_patience_s=normal.start_patience_s / watch,
        disk_check_s=normal.disk_check_s / watch,
        disk_rest=normal.disk_rest / watch,
        engine_check_s=normal.engine_check_s / watch,
        engine_timeout_s=normal.engine_timeout_s / watch,
        unkillable_s=normal.unkillable_s / watch,
        gpu_check_s=normal.gpu_check_s / gpu,
        gpu_sample_s=normal.gpu_sample_s / gpu,
        use_sample_s=normal.use_sample_s / gpu,
        use_report_s=normal.use_report_s / gpu,
        gpu_release_s=normal.gpu_release_s / gpu,
        gpu_release_check_s=normal.gpu_release_check_s / gpu,
    )
