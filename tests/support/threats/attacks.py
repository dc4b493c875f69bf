"""The attacks that pit must withstand, by number, and why some of them have no test.

The tests carry the numbers: `@pytest.mark.threat("S01")`.
"""

from tests.support.threats.entries import Entry, NotPromised, Replaced

ATTACKS = {
    "S01": "a route is called without a token, or declares nobody who may call it",
    "S02": "a user's token on the routes of nodes, or a node's on those of users",
    "S03": "a login for an unknown user differs from one with a wrong password",
    "S04": "a password longer than bcrypt reads, with another tail",
    "S05": "a password with NUL, or of a megabyte",
    "S06": "passwords are guessed, or logins flood the head",
    "S07": "the database holds a token or a password",
    "S08": "a revoked or expired token, also on a request that is held open",
    "S09": "one name is registered twice at once; names that look like others, like paths or like options",
    "S10": "registration on a closed head; an account that nobody approved; two first admins",
    "S11": "a token in a URL",
    "S12": "additional fields that would make an admin or name another user",
    "S13": "another user's job, by its number",
    "S14": "a member is removed from the group while a job is shared",
    "S15": "another member writes into a job's directory",
    "S16": "a job writes to shared data, also as root and through mounts below it",
    "S17": "a group is joined or left after a job was submitted",
    "S18": "a worker reports on, or fetches data of, a process of another node",
    "S19": "a copied worker configuration runs twice",
    "S20": "a git remote that is an option of git",
    "S21": "a commit hash that is an option, a ref or has a digit too many",
    "S22": "a remote with a protocol that runs programs, reads files or hangs",
    "S23": "an ssh remote whose host is an option",
    "S24": "a remote at the head's own or an internal address, also by rebinding",
    "S25": "a git server redirects to an internal address",
    "S26": "credentials in a remote's URL",
    "S27": "submodules that name files, options or commands",
    "S28": "a repository has a link to /etc, and a diff writes through it",
    "S29": "a diff writes outside of the tree or into .git",
    "S30": "a diff adds a link to a file of the head, which is downloaded",
    "S31": "a job writes .git/config so that git runs a program for the head",
    "S32": "a tree of a billion files, a huge pack, a server that sends a byte per minute",
    "S33": "a diff of 200 MB, or one that unpacks to 1 GiB",
    "S34": "a user names the private remote that another one has fetched",
    "S35": "a repository with git filters or a hostile .lfsconfig",
    "S36": "a submission asks for privileges, host namespaces, mounts or devices",
    "S37": "an image sets its own user, entry point, volumes or driver variables",
    "S38": "a job makes the device of a neighbour's GPU",
    "S39": "a job sets CUDA_VISIBLE_DEVICES to other GPUs",
    "S40": "a job reaches the node, the engine, the head's database or other jobs",
    "S41": "a fork bomb",
    "S42": "a job, or a child of it, uses more memory than it has",
    "S43": "a job fills disks, /dev/shm or the table of inodes",
    "S44": "a setuid program in a group's directory",
    "S45": "shell syntax, control characters and templates in titles, variables and commands",
    "S46": "a variable of a megabyte, or ten thousand of them",
    "S47": "paths with .., NUL, encodings and 5,000 characters",
    "S48": "a directory is swapped for a link in a loop, during reads and writes",
    "S49": "pipes, devices, sockets and sparse files in a job's directory",
    "S50": "a hard link to another user's file",
    "S51": "a hostile archive or listing reaches the client",
    "S52": "a directory to be mounted becomes a link before the start",
    "S53": "terminal sequences, HTML and a 200 MB line in a log",
    "S54": "a job prints its secret",
    "S55": "the engine's archive API on a container with volumes",
    "S56": "a cloned project brings a .pitconnect.txt",
    "S57": "another certificate, an expired one, plain http, old TLS",
    "S58": "untracked keys and .env files in a work tree",
    "S59": "hundreds of slow connections and idle followers",
    "S60": "cross-site requests, rebinding, script in files of users",
    "S61": "an old report of a worker is sent again",
    "S62": "git, Docker or runc versions with known vulnerabilities",
}

WITHOUT_TEST: dict[str, Entry] = {
    "S28": Replaced(
        "snapshots are git trees, not diffs",
        "tests/head/snapshots/test_hostile_trees.py::test_nothing_is_written_through_a_link",
    ),
    "S29": Replaced(
        "snapshots are git trees, not diffs",
        "tests/head/snapshots/test_hostile_trees.py::test_names_that_lead_out_of_the_tree_or_into_git_are_refused",
    ),
    "S30": Replaced(
        "snapshots are git trees, not diffs",
        "tests/head/snapshots/test_hostile_trees.py::test_a_link_to_a_file_of_the_head_stays_a_link",
    ),
    "S33": Replaced(
        "snapshots are git packs, not diffs",
        "tests/head/snapshots/test_hostile_trees.py::test_a_zip_bomb_in_a_pack_is_refused_without_using_memory",
    ),
    "S54": NotPromised(
        "what a command prints is in its log as it is: a value that is encoded or split cannot be "
        "recognized, and redaction that fails now and then is worse than the plain rule"
    ),
}
