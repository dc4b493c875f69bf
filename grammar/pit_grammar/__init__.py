"""The request language: `parse("2:[8:a100]")` returns a value, and `str` of the value returns the text."""

from pit_grammar.errors import RequestError
from pit_grammar.parser import corrected, parse
from pit_grammar.request import Count, Need, Placement, ProcessGroup, Request

__all__ = ["Count", "Need", "Placement", "ProcessGroup", "Request", "RequestError", "corrected", "parse"]
