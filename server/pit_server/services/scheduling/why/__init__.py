"""Why a job waits, or how it came where it is."""
