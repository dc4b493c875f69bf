"""What all tables share."""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Float, Integer, Text
from sqlalchemy.orm import DeclarativeBase


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        float: Float(53),
        dict[str, Any]: JSON,
        # SQLite increments keys itself only if they are plain integers, which have 64 bits there.
        int: BigInteger().with_variant(Integer, "sqlite"),
    }
