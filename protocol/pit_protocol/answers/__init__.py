"""What the head answers, one noun per module. The head builds these types, clients decode them.

States, outcomes and kinds are texts here, not enums: an older client must still read a newer head's answer.
A field that is left out for some callers is `UNSET` for them.
"""
