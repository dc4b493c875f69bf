"""What an allocation of Slurm gives to the pilot that runs in it, by its environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pit_protocol.messages.beat import Inventory, Resource

GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "ROCR_VISIBLE_DEVICES")
NO_GPUS = ("", "NoDevFiles", "-1")


@dataclass(frozen=True)
class Allocation:
    id: str
    index: int  # of this pilot
    host: str  # as the site calls the machine
    cores: int | None
    memory_mib: int | None
    gpus: tuple[str, ...]  # numbers or UUIDs

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Allocation":
        cores = _number(environ.get("SLURM_CPUS_ON_NODE"))
        memory = _number(environ.get("SLURM_MEM_PER_NODE"))
        if memory is None and cores and (per_core := _number(environ.get("SLURM_MEM_PER_CPU"))):
            memory = per_core * cores
        visible = next((environ[name] for name in GPUS if name in environ), "")
        return cls(
            id=environ.get("SLURM_JOB_ID", ""),
            index=_number(environ.get("SLURM_PROCID")) or 0,
            host=environ.get("SLURMD_NODENAME", ""),
            cores=cores,
            memory_mib=memory or None,
            gpus=() if visible in NO_GPUS else tuple(visible.split(",")),
        )

    def inventory(self, machine: Inventory) -> Inventory:
        """The part of the machine that belongs to the allocation."""
        return replace(
            machine,
            cores=min(machine.cores, self.cores) if self.cores else machine.cores,
            memory_mib=min(machine.memory_mib, self.memory_mib) if self.memory_mib else machine.memory_mib,
            resources=_visible(machine.resources, self.gpus),
        )


def _visible(found: Sequence[Resource], gpus: Sequence[str]) -> tuple[Resource, ...]:
    """The GPUs of the allocation among those that the driver lists."""
    if not found:
        # Without a driver that pit knows, the site's word is all there is.
        return tuple(Resource(number, "gpu") for number in gpus)
    by_unit = {resource.unit: resource for resource in found}
    if all(gpu in by_unit for gpu in gpus):
        return tuple(by_unit[gpu] for gpu in gpus)
    if len(found) == len(gpus):
        return tuple(found)  # the others are hidden from the driver, and numbers count from 0
    indices = [int(gpu) for gpu in gpus if gpu.isdecimal() and int(gpu) < len(found)]
    return tuple(found[index] for index in indices)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
