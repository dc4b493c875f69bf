"""`make bench-peers`: measure pit and Debian's Slurm side by side, and write bench/results.md."""

import argparse
from functools import partial
from pathlib import Path

from bench.peers.peer import Comparison
from bench.peers.pit_peer import running_pit
from bench.peers.results import render
from bench.peers.sizes import SMOKE, PeerSizes
from bench.peers.slurm_peer import running_slurm_peer

RESULTS = Path(__file__).parents[1] / "results.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="only check that every measurement runs")
    parser.add_argument("--rounds", type=int, metavar="N", help="measure everything so often")
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else PeerSizes()
    if arguments.rounds:
        sizes = PeerSizes(rounds=arguments.rounds)
    comparison = Comparison(
        [partial(running_pit, sizes.slots), partial(running_slurm_peer, sizes.slots)], sizes
    )
    comparison.run()
    page = render(comparison.figures.values(), sizes.rounds)
    print(page)
    if arguments.smoke:
        print("every measurement runs; at these sizes the figures mean nothing")
    else:
        RESULTS.write_text(page)


if __name__ == "__main__":
    main()
