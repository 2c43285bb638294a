"""Types of columns that tables share: texts in the order of their characters, on Postgres too, whatever its language."""

from typing import Final

from sqlalchemy import String, Text

ORDERED: Final = Text().with_variant(Text(collation="C"), "postgresql")
KEY: Final = String(250).with_variant(String(250, collation="C"), "postgresql")
