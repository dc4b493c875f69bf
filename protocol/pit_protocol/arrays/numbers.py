"""Numbers of jobs and of elements of arrays.

People write an element as `190.7`. In the database and between programs it has one number, like any job:
a negative one, from which array and index can be told. So an element has its number before it has a row.
"""

import re

_SHIFT = 20
MAX_INDEX = (1 << _SHIFT) - 1
_NAME = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,7}))?")


def element_number(array: int, index: int) -> int:
    """The number of one element; those of an array are consecutive, in the order of their indices."""
    return index - (array << _SHIFT)


def is_element(number: int) -> bool:
    return number < 0


def array_of(number: int) -> int:
    """The number of the array that an element belongs to; that of any other job is its own."""
    return -(number >> _SHIFT) if number < 0 else number


def index_of(number: int) -> int | None:
    """The index of an element; None for any other job."""
    return number & MAX_INDEX if number < 0 else None


def job_name(number: int) -> str:
    """A number as people write it: `190`, or `190.7` for an element."""
    return f"{array_of(number)}.{index_of(number)}" if number < 0 else str(number)


def parse_job_name(text: str) -> int | None:
    """The inverse of `job_name`; None if the text is no such name."""
    match = _NAME.fullmatch(text)
    if match is None or not text.isascii():
        return None
    number, index = int(match[1]), match[2]
    if index is None:
        return number
    return element_number(number, int(index)) if number and int(index) <= MAX_INDEX else None
