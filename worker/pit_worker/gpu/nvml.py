"""NVML: which GPUs there are, their faults, the processes that use them, and how busy they are."""

import ctypes
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pynvml as nvml  # type: ignore[import-untyped]

from pit_protocol.messages.beat import Resource, Usage

MIB = 1024 * 1024
MAX_REASON = 250  # characters
# These say that this GPU or driver does not support the call, not that the GPU is faulty.
NO_ANSWER = {
    nvml.NVML_ERROR_NOT_SUPPORTED,
    nvml.NVML_ERROR_NO_PERMISSION,
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    nvml.NVML_ERROR_INSUFFICIENT_SIZE,
}

log = logging.getLogger(__name__)


class GpuFault(Exception):
    """A GPU must not be used; the text says why, and follows its name."""


class NoDriver(Exception):
    """This machine's GPUs, if it has any, cannot be used."""


class User(NamedTuple):
    pid: int
    memory_mib: int | None


class Driver:
    """NVML; it is opened once, and again after an error, because the driver may have been replaced."""

    def __init__(self) -> None:
        self._events: Any = None  # NVML's set of them, if it has one
        self._subscribed: Sequence[str] = ()
        self._parts: dict[int, list[str]] = {}  # by the handle of a GPU, what it is offered as
        self._is_open = False
        self._has_failed = False

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
            raise NoDriver("the driver found none")
        for index in range(count):
            try:
                found += _resources(nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError as error:
                log.error("GPU %d is left out: %s; restart the worker once it is repaired", index, error)
        return tuple(sorted(found, key=lambda resource: (len(resource.pci), resource.pci)))

    def reopen(self) -> None:
        """Open it again after an error; raises GpuFault, which then holds for each GPU."""
        if self._is_open and not self._has_failed:
            return
        if self._is_open:
            self._is_open = False
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise _fault_of(error) from error
        self._is_open, self._has_failed = True, False
        self.subscribe(self._subscribed)

    def subscribe(self, units: Sequence[str]) -> None:
        """Ask for error events (Xid) of these; not every GPU and driver has them."""
        self._subscribed, self._events, self._parts = units, None, {}
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            log.debug("the GPU driver does not report errors (Xid): %s", error)
            return
        for unit in units:
            try:
                whole = _whole(nvml.nvmlDeviceGetHandleByUUID(unit))
                self._parts.setdefault(_address(whole), []).append(unit)
                nvml.nvmlDeviceRegisterEvents(whole, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError as error:
                log.debug("GPU %s does not report errors (Xid): %s", unit, error)
        self._events = events

    def read_xids(self) -> list[tuple[str, int]]:
        """Errors since the last call: on which unit, and the number that NVIDIA gives it (Xid)."""
        xids: list[tuple[str, int]] = []
        while self._events is not None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError_Timeout:
                break
            except nvml.NVMLError as error:
                # Other calls find the fault; next time the driver is opened again.
                log.info("errors of GPUs (Xid) cannot be read: %s", error)
                self._has_failed = True
                break
            # By its handle: a GPU that has fallen off the bus does not give its UUID.
            xids += [(unit, int(event.eventData)) for unit in self._parts.get(_address(event.device), ())]
        return xids

    def users(self, unit: str) -> list[User]:
        """The processes that compute on it; raises GpuFault."""
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(unit)
            _check_memory(_whole(handle))
            running = _query(nvml.nvmlDeviceGetComputeRunningProcesses_v3, handle) or ()
        except nvml.NVMLError as error:
            self._has_failed = True
            raise _fault_of(error) from error
        return [User(each.pid, each.usedGpuMemory and each.usedGpuMemory // MIB) for each in running]

    def measure(self, units: Sequence[str]) -> Usage | None:
        """The present usage, as the mean over `units`; None where the driver does not report it."""
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
            # The next check finds the fault.
            return None
        return float(rates.gpu), 100.0 * memory.used / max(memory.total, 1)


def _resources(handle: Any) -> Iterator[Resource]:
    """The GPU, or what it is divided into."""
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    place = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
    model = nvml.nvmlDeviceGetName(handle)
    mode = _query(nvml.nvmlDeviceGetMigMode, handle)
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
    if not _query(nvml.nvmlDeviceIsMigDeviceHandle, handle):
        return handle
    return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _check_memory(handle: Any) -> None:
    nvml.nvmlDeviceGetMemoryInfo(handle)
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    errors = _query(nvml.nvmlDeviceGetTotalEccErrors, handle, uncorrected, nvml.NVML_VOLATILE_ECC)
    if errors:
        kind = "error" if errors == 1 else "errors"
        raise GpuFault(f"has {errors:,} uncorrected memory {kind} (ECC) since its last reset")


def _fault_of(error: nvml.NVMLError) -> GpuFault:
    if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_GPU_NOT_FOUND):
        return GpuFault("is gone")
    if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return GpuFault("fails: its driver was replaced; restart the worker, or the machine")
    return GpuFault(f"fails: {error}".rstrip(".")[:MAX_REASON])


def _query(call: Callable[..., Any], *about: Any) -> Any:
    """The answer, or None where this GPU or driver has none."""
    try:
        return call(*about)
    except nvml.NVMLError as error:
        if error.value in NO_ANSWER:
            return None
        raise
