"""The client for Python programs: `from pit import Client`."""

from pit.client.client import Client
from pit.client.job import Job

__all__ = ["Client", "Job"]
