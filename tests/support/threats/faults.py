"""The faults that pit must survive, by number, and why some of them have no test.

The tests carry the numbers: `@pytest.mark.threat("F01")`.
"""

from tests.support.threats.entries import Entry

FAULTS = {
    "F01": ("the head is killed before it commits a submission", "the repeated submission is one job"),
    "F02": (
        "the head is killed after that commit, before its answer",
        "the repeated submission is the same job",
    ),
    "F03": (
        "the head is killed after it has placed a job",
        "the worker gets the same order, and starts it once",
    ),
    "F04": (
        "the head is killed while a job is prepared, runs or ends",
        "the job continues; its state is right",
    ),
    "F05": ("the head is killed after it has stored an end", "the worker reports again; it is stored once"),
    "F06": ("the head is killed during a stop", "the job is stopped"),
    "F07": ("the head is away while jobs run and end", "results and logs arrive when it is back"),
    "F08": ("the worker is killed at every step of a start", "the command is started once"),
    "F09": ("the worker is killed while a process runs", "the same process continues; no gap in its log"),
    "F10": ("the worker is killed, and the process ends meanwhile", "exit code and log are reported"),
    "F11": ("the worker is killed around the report of an end", "one report; nothing is left on the node"),
    "F12": ("the worker is killed and the node is cut off", "the process ends with its lease"),
    "F13": ("the container engine is killed, with live-restore", "containers continue; logs are complete"),
    "F14": ("the container engine is killed, without live-restore", "the reason names the engine"),
    "F15": ("the container engine hangs", "beats go on; the node takes no new processes"),
    "F16": (
        "a partition that ends in time",
        "the job continues; the node shows as offline; the log is complete",
    ),
    "F17": (
        "a partition longer than the lease",
        "the process ends itself, then the job is lost; late reports change nothing",
    ),
    "F18": ("requests arrive, answers do not", "nothing happens twice; the lease ends by the worker's clock"),
    "F19": ("a slow, delayed, lossy network", "nothing is lost, only slower"),
    "F20": ("most nodes vanish at once", "nothing is requeued in bulk"),
    "F21": (
        "a worker is frozen beyond the lease and wakes up",
        "its process is gone; its reports change nothing",
    ),
    "F22": ("a node loses power", "processes of another boot are lost, with that reason; resources are free"),
    "F23": (
        "every request of a worker is delivered twice, late and in another order",
        "the state is the same",
    ),
    "F24": (
        "two workers with one identity, two heads on one database",
        "the second fences the first, or does not start",
    ),
    "F25": ("the database is locked by somebody else", "503 with Retry-After; nothing is half written"),
    "F26": (
        "PostgreSQL is killed and restarted, or restored from a backup",
        "requests get 503; work continues; nothing is mixed up or run twice",
    ),
    "F27": ("the head's disk is full", "submissions are refused, reads and beats work, nothing breaks"),
    "F28": ("a node's disk is full", "no new processes; the reason is named"),
    "F29": ("a node's file system becomes read-only", "the node takes itself out of service"),
    "F30": ("a wall clock jumps by a day, on the head or a node", "no lease ends or grows"),
    "F31": ("a job floods its log", "memory stays bounded, the log is complete or marked"),
    "F32": ("slow readers follow logs, or vanish", "memory stays bounded, others are served"),
    "F33": ("10,000 waiting jobs of one user", "submissions stay fast, others start in turn"),
    "F34": ("a stop races with the end", "one of them wins"),
    "F35": ("out of memory: the process, its child, the worker", "the reason is told; the worker is spared"),
    "F36": (
        "a process ignores SIGTERM, or cannot be killed",
        "SIGKILL after the grace; then the node is in trouble",
    ),
    "F37": ("a GPU fails or vanishes", "it is taken out of use, and the reason says so"),
    "F38": ("an image cannot be pulled", "the job says why; others start meanwhile"),
    "F39": ("a git server hangs or breaks off", "the job fails with the reason; no half tree is used"),
    "F40": ("a job that kills its worker", "it fails after three starts; no other node gets it"),
    "F41": ("head and workers of different versions", "one sentence says what to upgrade; jobs continue"),
    "F42": (
        "the machine of the head dies at any moment",
        "the database opens, with all that was acknowledged",
    ),
    "F43": ("the head's certificate is renewed or expires", "the known key is accepted, nothing else is"),
    "F44": ("random faults on three nodes", "all invariants hold, and everything is clean afterwards"),
}

WITHOUT_TEST: dict[str, Entry] = {}
