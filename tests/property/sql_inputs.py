"""Inputs for the SQL checker, from one seed: mostly valid queries, queries that were damaged, token soup, and noise.

Input n of a seed depends on nothing else, so `seed:n` is a whole bug report.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from biclique.query.schema import parse_schema

SOURCES = tuple(
    (name, parse_schema(schema))
    for name, schema in (
        (
            "a",
            """id BIGINT NOT NULL, t TINYINT, s SMALLINT, i INT, x DOUBLE, d DECIMAL(10,2), e DECIMAL(18,6),
               b BOOLEAN, n STRING, "Odd Name" STRING, day DATE, at TIMESTAMP""",
        ),
        ("c", "id BIGINT, i INT, x DOUBLE, d DECIMAL(4,4), b BOOLEAN, n STRING, day DATE, at TIMESTAMP, within INT"),
    )
)

NUMBERS = ("i", "id", "x", "d")
COLUMNS = {
    "number": NUMBERS,
    "boolean": ("b",),
    "string": ("n",),
    "time": ("at", "day"),
}
LITERALS = {
    "number": ("0", "1", "5", "127", "-1", "2.5", ".5", "1e3", "100000000000", "9223372036854775807", "0.000001"),
    "boolean": ("TRUE", "FALSE", "NULL"),
    "string": ("'a'", "''", "'it''s'", "'WITHIN 5 MINUTES'", "'2026-01-01'", "NULL"),
    "time": ("TIMESTAMP '2026-01-01 12:00:00'", "DATE '2026-03-01'", "'2026-03-01'", "NULL"),
    "interval": ("INTERVAL 5 MINUTE", "INTERVAL '2' HOUR", "INTERVAL 1.5 SECOND", "INTERVAL '3 days'"),
}
WORDS = (
    *("SELECT", "FROM", "JOIN", "ON", "WHERE", "GROUP BY", "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "CASE"),
    *("WHEN", "THEN", "ELSE", "END", "CAST", "AS", "INTERVAL", "WITHIN", "TUMBLE", "ONLINE", "DISTINCT", "UNION"),
    *("ORDER BY", "LIMIT", "HAVING", "LEFT", "OUTER", "CROSS", "INNER", "NATURAL", "USING", "LATERAL", "OVER", "LIKE"),
    *("EXISTS", "ALL", "ANY", "VALUES", "WITH", "INSERT", "DROP", "PIVOT", "UNNEST", "FILTER", "QUALIFY", "EXTRACT"),
    *(
        "a",
        "c",
        "x",
        "y",
        "id",
        "i",
        "d",
        "n",
        "at",
        "day",
        "b",
        "COUNT",
        "SUM",
        "ABS",
        "COALESCE",
        "DATE_TRUNC",
        "SQRT",
    ),
    *("(", ")", "(", ")", ",", ".", "*", "+", "-", "/", "%", "||", "=", "<>", "<", "<=", ">", ">=", ";", "[", "]", "{"),
    *(
        "}",
        "::",
        ":",
        "?",
        "@",
        "$1",
        "#",
        "\\",
        "`",
        '"',
        "'",
        "--",
        "/*",
        "*/",
        "=>",
        "->",
        "<=>",
        "!",
        "~",
        "^",
        "&",
    ),
    *(
        "1",
        "2.5",
        "'s'",
        "10",
        "MINUTES",
        "SECOND",
        "YEAR",
        "1e999",
        "0x1f",
        "1_000",
        "N'x'",
        "\x00",
        "\ud800",
        "é",
        "𝒳",
    ),
)


class Grammar:
    """Queries that are meant to be valid; many are not, because types and widths are left to chance at the leaves."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.aliases: list[tuple[str, int]] = []

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def query(self) -> str:
        count = self.random.choice((2, 2, 2, 3, 5))
        self.aliases = [(f"r{n}", self.random.randrange(2)) for n in range(count)]
        aggregating, tumble = self.random.random() < 0.25, ""
        keys = [self.value(self.pick("number", "string", "time"), 1) for _ in range(self.random.randrange(3))]
        if aggregating:
            items = [f"{key} AS k{n}" for n, key in enumerate(keys)] + [f"{self.aggregate()} AS g"]
            tumble = self.pick("", "TUMBLE(1 MINUTE)")
            items += [f"{tumble} AS start"] if tumble and self.random.random() < 0.5 else []
        else:
            kinds = [self.pick(*COLUMNS) for _ in range(self.random.randrange(1, 4))]
            items = [f"{self.value(kind, 3)} AS v{n}" for n, kind in enumerate(kinds)]
        select = f"SELECT {self.pick('', '', 'ONLINE ')}{self.pick('', '', '' if aggregating else 'DISTINCT ')}"
        text = f"{select}{', '.join(items)} FROM {self.tables()}"
        if self.random.random() < 0.5:
            text += f" WHERE {self.value('boolean', 4)}"
        within = self.pick("", " WITHIN 10 MINUTES", " within 1.5 hours")
        group = ", ".join([*keys, tumble] if tumble else keys) if aggregating else ""
        grouped = f" GROUP BY {group}" if group else ""
        return text + (within + grouped if self.random.random() < 0.5 else grouped + within)

    def tables(self) -> str:
        text = ""
        for n, (alias, source) in enumerate(self.aliases):
            table = f"{SOURCES[source][0]} {alias}"
            if n == 0:
                text = table
            elif self.random.random() < 0.2:
                text += f", {table}"
            else:
                seen, self.aliases = self.aliases, self.aliases[: n + 1]
                text += f" JOIN {table} ON {self.value('boolean', 4)}"
                self.aliases = seen
        return text

    def aggregate(self) -> str:
        if self.random.random() < 0.3:
            return "COUNT(*)"
        name = self.pick("COUNT(", "COUNT(DISTINCT ", "SUM(", "AVG(", "MIN(", "MAX(")
        return f"{name}{self.value('number', 2)})"

    def column(self, kind: str) -> str:
        alias, _ = self.random.choice(self.aliases)
        return f"{alias}.{self.pick(*COLUMNS[kind])}"

    def value(self, kind: str, depth: int) -> str:
        if kind != "interval" and (depth == 0 or self.random.random() < 0.2):
            return self.column(kind)
        if depth == 0 or self.random.random() < 0.1:
            return self.pick(*LITERALS[kind])
        return getattr(self, f"_{kind}")(depth - 1)

    def _number(self, depth: int) -> str:
        number = lambda: self.value("number", depth)  # noqa: E731
        return self.random.choice(
            (
                lambda: f"{number()} {self.pick('+', '-', '*', '/', '%')} {number()}",
                lambda: f"({number()})",
                lambda: f"- {number()}",
                lambda: f"{self.pick('ABS', 'FLOOR', 'CEIL', 'ROUND', 'SQRT')}({number()})",
                lambda: f"ROUND({number()}, {self.pick('2', '-2', '0')})",
                lambda: f"{self.pick('GREATEST', 'LEAST', 'COALESCE', 'NULLIF', 'MOD')}({number()}, {number()})",
                lambda: f"CASE WHEN {self.value('boolean', depth)} THEN {number()} ELSE {number()} END",
                lambda: f"CASE {number()} WHEN {number()} THEN {number()} END",
                lambda: f"CAST({number()} AS {self.pick('INT', 'BIGINT', 'DOUBLE', 'DECIMAL(10,2)', 'DECIMAL(18,0)')})",
                lambda: f"CAST({self.value('string', depth)} AS {self.pick('INT', 'DOUBLE', 'DECIMAL(5,2)')})",
                lambda: f"LENGTH({self.value('string', depth)})",
                lambda: f"{self.pick('YEAR', 'MONTH', 'DAY', 'HOUR')}({self.value('time', depth)})",
                lambda: f"EXTRACT({self.pick('YEAR', 'SECOND')} FROM {self.value('time', depth)})",
            )
        )()

    def _boolean(self, depth: int) -> str:
        kind = self.pick("number", "string", "time", "number", "interval")
        value = lambda: self.value(kind, depth)  # noqa: E731
        boolean = lambda: self.value("boolean", depth)  # noqa: E731
        compare = lambda: f"{value()} {self.pick('=', '<>', '<', '<=', '>', '>=')} {value()}"  # noqa: E731
        return self.random.choice(
            (
                compare,
                compare,
                compare,
                lambda: f"{boolean()} {self.pick('AND', 'OR')} {boolean()}",
                lambda: f"({boolean()})",
                lambda: f"NOT ({boolean()})",
                lambda: f"{value()} {self.pick('', 'NOT ')}BETWEEN {value()} AND {value()}",
                lambda: f"{value()} {self.pick('', 'NOT ')}IN ({value()}, {value()}, {value()})",
                lambda: f"{value()} IS {self.pick('', 'NOT ')}NULL",
            )
        )()

    def _string(self, depth: int) -> str:
        string = lambda: self.value("string", depth)  # noqa: E731
        return self.random.choice(
            (
                lambda: f"{string()} || {string()}",
                lambda: f"CONCAT({string()}, {string()})",
                lambda: f"{self.pick('UPPER', 'LOWER', 'TRIM')}({string()})",
                lambda: f"SUBSTRING({string()}, {self.value('number', 0)}, 2)",
                lambda: f"SUBSTRING({string()} FROM 1)",
                lambda: f"COALESCE({string()}, {string()})",
                lambda: f"CAST({self.value('number', depth)} AS STRING)",
            )
        )()

    def _time(self, depth: int) -> str:
        time = lambda: self.value("time", depth)  # noqa: E731
        return self.random.choice(
            (
                lambda: f"{time()} {self.pick('+', '-')} {self.value('interval', depth)}",
                lambda: f"DATE_TRUNC('{self.pick('hour', 'week', 'YEAR')}', {time()})",
                lambda: f"GREATEST({time()}, {time()})",
                lambda: f"CAST({time()} AS {self.pick('DATE', 'TIMESTAMP')})",
            )
        )()

    def _interval(self, depth: int) -> str:
        return self.random.choice(
            (
                lambda: f"({self.value('time', depth)} - {self.value('time', depth)})",
                lambda: f"ABS({self.value('interval', depth)})",
                lambda: f"({self.value('interval', depth)} + {self.value('interval', depth)})",
            )
        )()


def damaged(random: Random) -> str:
    """A query with a few words taken out, doubled, exchanged, or put in."""
    words = Grammar(random).query().split(" ")
    for _ in range(random.randrange(1, 4)):
        position = random.randrange(len(words))
        match random.randrange(6):
            case 0:
                words[position] = random.choice(WORDS)
            case 1:
                words.insert(position, random.choice(WORDS))
            case 2:
                del words[position]
                words = words or ["SELECT"]
            case 3:
                words[position:position] = words[: random.randrange(1, 8)]
            case 4:
                other = random.randrange(len(words))
                words[position], words[other] = words[other], words[position]
            case 5:
                word = words[position]
                cut = random.randrange(len(word) + 1)
                words[position] = word[:cut] + random.choice(WORDS) + word[cut:]
    return " ".join(words)


def soup(random: Random) -> str:
    words = [random.choice(WORDS) for _ in range(random.randrange(30))]
    return random.choice(("", "SELECT ", "SELECT * FROM a JOIN c ON ")) + random.choice((" ", "")).join(words)


def noise(random: Random) -> str:
    top = random.choice((0x7F, 0x7F, 0x250, 0x10FFFF))
    text = "".join(chr(random.randint(0, top)) for _ in range(random.randrange(60)))
    return random.choice(("", "SELECT ", "SELECT a.x FROM a, c WHERE a.n = '")) + text


def towering(random: Random) -> str:
    """Deep or long: parentheses, operators in a row, lists, and forms that copy their operand."""
    count = random.choice((20, 33, 64, 65, 100, 499, 501, 2000))
    value = random.choice(
        (
            "(" * count + "1" + ")" * count,
            "NOT " * count + "r0.b",
            "- " * count + "1",
            " + ".join(["r0.i"] * count),
            " AND ".join(["r0.b"] * count),
            " OR ".join(["r0.i = 1"] * count),
            " || ".join(["r0.n"] * count),
            "r0.i IN (" + ", ".join(map(str, range(count))) + ")",
            "ABS(" * count + "r0.x" + ")" * count,
            "(" * (count % 30) + "r0.b" + " BETWEEN r0.b AND r0.b)" * (count % 30),
            "CASE " * count + "r0.i" + " WHEN 1 THEN 2 END" * count,
            "r0.i = 1" + " = TRUE" * count,
            "r0.n = '" + "x" * count + "'",
            "r0.i = " + "9" * count,
            "r0.x = 1e" + "9" * count,
            "r0.d = 0." + "0" * count + "1",
            "CAST(" * count + "1" + " AS INT)" * count,
            "INT(" * (count % 32) + "1" + ")" * (count % 32),
            "BIGINT[" * (count % 32) + "1" + "]" * (count % 32),
            "STRUCT(" * (count % 32) + "1" + ")" * (count % 32),
        )
    )
    return f"SELECT r0.id AS p FROM a r0 JOIN c r1 ON r0.id = r1.id WHERE {value}"


_KINDS: tuple[Callable[[Random], str], ...] = (
    lambda random: Grammar(random).query(),
    lambda random: Grammar(random).query(),
    damaged,
    damaged,
    soup,
    noise,
)


def sql_input(seed: int, number: int) -> str:
    random = Random(f"{seed}:{number}")
    return towering(random) if number % 50 == 0 else random.choice(_KINDS)(random)
