"""What `secretRef` means: a folder of that name, with a file for each key, as Kubernetes mounts a Secret.

    <BICLIQUE_SECRETS>/<name>/<key>

Only the reference travels: between processes, in manifests, in Spark's options. A value is read in the process that
uses it, when it uses it; it is in no message, log or repr. Every complaint here names the Secret and the key, and never
a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from biclique.query.errors import QueryError


@dataclass(frozen=True)
class Secret:
    """One that is there. Keys are asked for with their other customary names; the first that is there counts."""

    name: str
    folder: Path

    def path(self, *keys: str) -> Path | None:
        return next((path for key in keys if (path := self.folder / key).is_file()), None)

    def text(self, *keys: str) -> str | None:
        """A value of one line. A line break at its end is an editor's more likely than a part of a password, and what
        Kafka's Java client reads by itself would have it: so it is refused, and not guessed at."""
        path = self.path(*keys)
        if path is None:
            return None
        try:
            value = path.read_text()
        except (OSError, UnicodeDecodeError) as failure:
            why = failure.strerror if isinstance(failure, OSError) else "it is no text"
            raise self.wrong(f"its key {path.name} cannot be read ({why})", "give this process the right to") from None
        if not value or not value.isprintable():
            problem = f"its key {path.name} is empty, or holds a line break or another unprintable character"
            raise self.wrong(problem, "write the value alone, as `printf` does and `echo` does not")
        return value

    def needed(self, *keys: str) -> str:
        value = self.text(*keys)
        if value is None:
            raise self.wrong(f"it has no key {keys[0]}", f"add it (in a folder of Secrets: the file {keys[0]})")
        return value

    def wrong(self, problem: str, remedy: str) -> QueryError:
        return QueryError(f"Secret {self.name}", f"{problem} in {self.folder}", remedy)


def secret_of(folder: str, name: str) -> Secret:
    """`folder`: with all Secrets, from the setting BICLIQUE_SECRETS; empty where it was not given."""
    if not folder:
        remedy = "set it to the folder that has a folder for each Secret, with a file for each of its keys"
        raise QueryError("BICLIQUE_SECRETS", f"a secretRef names {name}, and this setting is missing", remedy)
    found = Path(folder).absolute() / name
    if not found.is_dir():
        raise QueryError(f"Secret {name}", f"there is none at {found}", "mount it there, or correct the secretRef")
    return Secret(name, found)
