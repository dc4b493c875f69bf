"""The environment that pit gives a process: where its peers are, and what torchrun and MPI expect."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from pit_protocol.arrays.elements import parse_elements
from pit_protocol.arrays.numbers import array_of
from pit_protocol.job_options import JobOptions
from pit_server.db.database import AnyRow


def variables(row: AnyRow, peers: Sequence[AnyRow], units: Sequence[str]) -> dict[str, str]:
    """What a process is told about itself and its peers; `units` are its GPUs."""
    groups: dict[int, int] = defaultdict(int)
    env = {}
    for peer in peers:
        groups[peer.group_index] += 1
        env[f"HOST_GROUP{peer.group_index}_PROCESS{peer.process_index}"] = peer.host
    env |= {f"NUM_PROCESSES_GROUP{group}": str(count) for group, count in groups.items()}
    return env | {
        "NUM_GROUPS": str(len(groups)),
        "GROUP_INDEX": str(row.group_index),
        "PROCESS_INDEX": str(row.process_index),
        # Programs that ask for the user's name find no account of that uid on the node.
        "USER": row.user,
        "LOGNAME": row.user,
        "JOB_NUMBER": str(array_of(row.job_id)),
        "ATTEMPT": str(row.attempt),
        "PIT_RESTART": str(row.attempt - 1),
        "MASTER_ADDR": peers[0].host,
        "MASTER_PORT": str(row.master_port),
        "WORLD_SIZE": str(len(peers)),
        "RANK": str(row.rank),
        # A process has its GPUs to itself, numbered from 0.
        "LOCAL_RANK": "0",
        "CUDA_VISIBLE_DEVICES": ",".join(units),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def of_element(index: int | None, options: JobOptions) -> dict[str, str]:
    """What an element of an array is told about its place."""
    elements = parse_elements(options.array, options.sweep)
    if index is None or elements is None:
        return {}
    return {"PIT_ARRAY_INDEX": str(index), "PIT_ARRAY_SIZE": str(elements.size)}


def swept(index: int | None, options: JobOptions) -> dict[str, str]:
    """The variables of a sweep, for one element."""
    elements = parse_elements(options.array, options.sweep)
    return {} if index is None or elements is None else elements.values(index)


def hostfile(peers: Sequence[AnyRow]) -> str:
    """The hosts of a job and their slots, as MPI reads them."""
    return "".join(f"{host} slots={count}\n" for host, count in Counter(peer.host for peer in peers).items())
