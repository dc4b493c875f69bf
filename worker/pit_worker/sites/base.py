"""What an agent needs of a site, whatever it is made of."""

from pathlib import Path
from typing import Protocol

from pit_protocol.messages.site import SeenAllocation, Wish


class SiteError(Exception):
    """The site gives no answer now; a later try may succeed."""


class SiteRefusal(Exception):
    """The site will never give this allocation."""


class SiteBackend(Protocol):
    def list_allocations(self, prefix: str) -> list[SeenAllocation]:
        """All whose name begins with `prefix`, also those that have just ended; raises SiteError."""

    def submit(self, wish: Wish, folder: Path) -> None:
        """Ask for one, whose pilots find their settings in `folder`; raises SiteError, SiteRefusal."""

    def cancel(self, allocation: SeenAllocation) -> None:
        """End an allocation; raises SiteError."""
