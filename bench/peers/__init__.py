"""The same work on pit and on Slurm, side by side on this machine."""
