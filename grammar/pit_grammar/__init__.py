"""The request language: `parse("2:[8:a100]")` gives a value, `str` of the value gives the text back."""

from pit_grammar.errors import RequestError
from pit_grammar.parser import parse
from pit_grammar.request import Count, Need, Placement, ProcessGroup, Request

__all__ = ["Count", "Need", "Placement", "ProcessGroup", "Request", "RequestError", "parse"]
