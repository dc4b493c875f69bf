"""NVML, asked one question at a time: which GPUs there are, what ails them, who uses them and how much."""

import ctypes
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pynvml as nvml  # type: ignore[import-untyped]

from pit_protocol.beat import Resource, Usage

MIB = 1024 * 1024
MAX_REASON = 250  # characters
# Says of the question, not of the GPU, that there is no answer.
UNANSWERED = {
    nvml.NVML_ERROR_NOT_SUPPORTED,
    nvml.NVML_ERROR_NO_PERMISSION,
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    nvml.NVML_ERROR_INSUFFICIENT_SIZE,
}

log = logging.getLogger(__name__)


class Ailing(Exception):
    """A GPU must not be used; the text says why, and follows its name."""


class NoDriver(Exception):
    """This machine's GPUs, if it has any, cannot be used."""


class User(NamedTuple):
    pid: int
    memory_mib: int | None


class Driver:
    """NVML; it is opened once, and anew after an error, for by then it may be another driver."""

    def __init__(self) -> None:
        self._events: Any = None  # NVML's set of them, if it has one
        self._listens_to: Sequence[str] = ()
        self._parts: dict[int, list[str]] = {}  # by the handle of a GPU, what it is offered as
        self._is_open = False
        self._has_erred = False

    def find(self) -> tuple[Resource, ...]:
        """All there are, in the order of the PCI bus; raises NoDriver."""
        found: list[Resource] = []
        try:
            nvml.nvmlInit()
            self._is_open = True
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise NoDriver(str(error)) from error
        if count == 0:
            raise NoDriver("its driver knows of none")
        for index in range(count):
            try:
                found += _resources(nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError as error:
                log.error("GPU %d is left out: %s; once it is mended, restart the worker", index, error)
        return tuple(sorted(found, key=lambda resource: (len(resource.pci), resource.pci)))

    def renew(self) -> None:
        """Open it again if something went wrong; raises Ailing, which is said of each GPU then."""
        if self._is_open and not self._has_erred:
            return
        if self._is_open:
            self._is_open = False
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise _ailing(error) from error
        self._is_open, self._has_erred = True, False
        self.listen(self._listens_to)

    def listen(self, units: Sequence[str]) -> None:
        """Ask to be told when something goes wrong with these; not every GPU and driver can tell."""
        self._listens_to, self._events, self._parts = units, None, {}
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            log.debug("the GPU driver does not tell of errors (Xid): %s", error)
            return
        for unit in units:
            try:
                whole = _whole(nvml.nvmlDeviceGetHandleByUUID(unit))
                self._parts.setdefault(_address(whole), []).append(unit)
                nvml.nvmlDeviceRegisterEvents(whole, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError as error:
                log.debug("GPU %s does not tell of errors (Xid): %s", unit, error)
        self._events = events

    def hear(self) -> list[tuple[str, int]]:
        """Errors since the last call: on which unit, and the number that NVIDIA gives it (Xid)."""
        heard: list[tuple[str, int]] = []
        while self._events is not None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError_Timeout:
                break
            except nvml.NVMLError as error:
                # What ails them is found out by other questions; next time the driver is opened anew.
                log.info("errors of GPUs (Xid) cannot be heard: %s", error)
                self._has_erred = True
                break
            # By its handle: one that has fallen off the bus does not tell its name.
            heard += [(unit, int(event.eventData)) for unit in self._parts.get(_address(event.device), ())]
        return heard

    def users(self, unit: str) -> list[User]:
        """Who computes on it; raises Ailing."""
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(unit)
            _check_memory(_whole(handle))
            running = _ask(nvml.nvmlDeviceGetComputeRunningProcesses_v3, handle) or ()
        except nvml.NVMLError as error:
            self._has_erred = True
            raise _ailing(error) from error
        return [User(each.pid, each.usedGpuMemory and each.usedGpuMemory // MIB) for each in running]

    def measure(self, units: Sequence[str]) -> Usage | None:
        """The use at this moment, on the mean over `units`; None where the driver tells none."""
        samples = [sample for unit in units if (sample := self._measure(unit))]
        if not samples:
            return None
        gpu, memory = (sum(column) / len(samples) for column in zip(*samples, strict=True))
        return Usage(gpu, memory)

    def _measure(self, unit: str) -> tuple[float, float] | None:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(unit)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            rates = nvml.nvmlDeviceGetUtilizationRates(handle)
        except nvml.NVMLError:
            # What ails it is found out by the next look.
            return None
        return float(rates.gpu), 100.0 * memory.used / max(memory.total, 1)


def _resources(handle: Any) -> Iterator[Resource]:
    """The GPU, or what it is divided into."""
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    place = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
    model = nvml.nvmlDeviceGetName(handle)
    mode = _ask(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        yield _resource(handle, model, place)
        return
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError_NotFound):
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            yield _resource(instance, f"{model} MIG {_profile(instance)}", place)


def _resource(handle: Any, model: str, place: str) -> Resource:
    memory_mib = nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB
    return Resource(nvml.nvmlDeviceGetUUID(handle), model, memory_mib, place)


def _profile(instance: Any) -> str:
    """As NVIDIA names it: 1g.5gb, or 1c.2g.10gb for a part of an instance's cores."""
    size = nvml.nvmlDeviceGetAttributes(instance)
    part, whole = size.computeInstanceSliceCount, size.gpuInstanceSliceCount
    cores = f"{whole}g" if part == whole else f"{part}c.{whole}g"
    return f"{cores}.{math.ceil(size.memorySizeMB / 1024)}gb"


def _whole(handle: Any) -> Any:
    """The GPU that an instance is a part of, or itself."""
    if not _ask(nvml.nvmlDeviceIsMigDeviceHandle, handle):
        return handle
    return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _check_memory(handle: Any) -> None:
    nvml.nvmlDeviceGetMemoryInfo(handle)
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    errors = _ask(nvml.nvmlDeviceGetTotalEccErrors, handle, uncorrected, nvml.NVML_VOLATILE_ECC)
    if errors:
        kind = "error" if errors == 1 else "errors"
        raise Ailing(f"has {errors:,} uncorrected memory {kind} (ECC) since its last reset")


def _ailing(error: nvml.NVMLError) -> Ailing:
    if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_GPU_NOT_FOUND):
        return Ailing("is gone")
    if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return Ailing("fails: its driver was replaced; restart the worker, or the machine")
    return Ailing(f"fails: {error}".rstrip(".")[:MAX_REASON])


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """The answer, or None where this GPU or driver has none."""
    try:
        return question(*about)
    except nvml.NVMLError as error:
        if error.value in UNANSWERED:
            return None
        raise
