"""`pit-head backup` and `pit-head restore`: all of a head but its data root, in one file.

The file is a tar: `database/` has the tables, `home/` the files of the head's home, and `manifest.json`,
which comes last, the hashes of all others.
"""
