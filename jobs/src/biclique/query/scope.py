"""Which relations and columns a name in the SQL can mean.

An unquoted name is matched without regard to case, a quoted one exactly; a schema has no two columns that differ in
case only, so there is at most one answer within a relation. A bare column name must be in one relation alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from biclique.query.conversion import short
from biclique.query.expression import Column
from biclique.query.model import Field
from biclique.query.text import SqlText


@dataclass(frozen=True, slots=True)
class ScopeRelation:
    name: str  # the alias
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of FROM that are visible where an expression stands: all, or in ON those up to its JOIN."""

    relations: tuple[ScopeRelation, ...]

    def relation(self, text: SqlText, name: exp.Identifier) -> int:
        for position, relation in enumerate(self.relations):
            if same_name(name, relation.name):
                return position
        names = [relation.name for relation in self.relations]
        raise text.error(name, f"{short(name.name)} is no relation here", nearest(name.name, names, "relations"))

    def column(self, text: SqlText, node: exp.Column) -> Column:
        name, table = node.this, node.args.get("table")
        if node.args.get("db") or node.args.get("catalog") or not isinstance(name, exp.Identifier):
            raise text.error(node, f"{text.quote(node)} is no column", "write relation.column")
        if table is not None:
            candidates = [self.relation(text, table)]
        else:
            candidates = list(range(len(self.relations)))
        found = [
            Column(relation, position, field.type)
            for relation in candidates
            for position, field in enumerate(self.relations[relation].fields)
            if same_name(name, field.name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            homes = " and ".join(f"{self.relations[column.relation].name}.{name.name}" for column in found)
            raise text.error(name, f"the column {short(name.name)} is ambiguous: {homes}", "name the relation")
        known = [field.name for relation in candidates for field in self.relations[relation].fields]
        where = f" in {self.relations[candidates[0]].name}" if table is not None else ""
        raise text.error(name, f"there is no column {short(name.name)}{where}", nearest(name.name, known, "columns"))


def same_name(written: exp.Identifier, name: str) -> bool:
    if written.args.get("quoted"):
        return bool(written.name == name)
    return bool(written.name.casefold() == name.casefold())


def nearest(written: str, known: Iterable[str], what: str) -> str:
    """`did you mean price?`, or the list to choose from."""
    names = list(dict.fromkeys(known))
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(written[:100].casefold(), list(folded), n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]}?"
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"the {what} are {listed}" if names else f"there are no {what}"
