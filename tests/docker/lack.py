"""What is not there is said on a laptop, and is a failure in CI."""

import os
from typing import NoReturn

import pytest


def lack(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)
