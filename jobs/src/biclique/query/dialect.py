"""Our dialect: one SELECT, with ONLINE, WITHIN and TUMBLE beside what the standard has. Text in, sqlglot's tree out.

The three words are taken out of the token stream, not out of the text, so a string, a comment or a quoted name that
holds them is left alone; the other tokens keep their places. No function is known to the parser here: all but CAST,
EXTRACT, SUBSTRING and TRIM, which have a syntax of their own, come back as a name with arguments, and
query/functions.py says which names there are. What comes out is a tree that nothing has been checked of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from biclique.query.conversion import short
from biclique.query.moments import INTERVAL_UNITS, interval_us
from biclique.query.text import SqlText

_UNITS = ", ".join(INTERVAL_UNITS)
_T = TokenType
# After ONLINE these go on with an expression or end the item: then `online` was a column.
_CONTINUES = {_T.COMMA, _T.DOT, _T.FROM, _T.ALIAS, _T.EQ, _T.NEQ, _T.LT, _T.LTE, _T.GT, _T.GTE, _T.PLUS, _T.DASH}
_CONTINUES |= {_T.SLASH, _T.MOD, _T.DPIPE, _T.IS, _T.IN, _T.BETWEEN, _T.AND, _T.OR, _T.SEMICOLON}
_CLAUSES = {_T.FROM, _T.WHERE, _T.GROUP_BY, _T.JOIN, _T.INNER, _T.CROSS, _T.SEMICOLON, _T.ORDER_BY, _T.HAVING}
_NEEDS_MORE = {_T.COMMA, _T.ON, _T.ALIAS}
_CLOSES = {_T.R_PAREN, _T.COMMA, _T.ON}
_AFTER_WITHIN = {_T.WHERE, _T.GROUP_BY, _T.SEMICOLON, _T.HAVING, _T.ORDER_BY, _T.LIMIT}
# Of the parser, back and forth: what people write takes fewer than two steps for a token.
STEPS_MIN = 200
STEPS_PER_TOKEN = 20


@dataclass(frozen=True)
class Statement:
    select: exp.Select
    text: SqlText
    within_us: int | None  # None: full history
    tumble_us: int | None


class _Unparsable(ParseError):
    """What the parser tries first may fail so and be tried otherwise; a failure of all that it tries ends here too."""

    def __init__(self, token: Token | None) -> None:
        self.token = token
        super().__init__("not understood")


class _OutOfSteps(Exception):
    """Not a ParseError, which the parser would take as a reason to try on."""


class _Parser(Parser):
    FUNCTIONS = {}  # noqa: RUF012  as sqlglot's own parsers do
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: Parser.FUNCTION_PARSERS[name] for name in ("CAST", "EXTRACT", "SUBSTRING", "TRIM")
    }

    _steps = 0

    def _advance(self, times: int = 1) -> None:
        """Bounded: `INT(INT(INT(…` is tried in two ways at every level, so its time would double with each."""
        self._steps += 1
        if self._steps > STEPS_MIN + STEPS_PER_TOKEN * self._tokens_size:
            raise _OutOfSteps
        super()._advance(times)

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        raise _Unparsable(token or self._curr or None)


def parse(sql: str) -> Statement:
    text = SqlText(sql)
    tokens = list(text.tokens)
    if not tokens:
        raise text.error_at(0, "the query is empty", "write SELECT ... FROM ... JOIN ... ON ...")
    if tokens[0].token_type is not _T.SELECT:
        raise text.error_at(
            tokens[0].start, f"a query begins with SELECT, not {short(tokens[0].text)}", "write one SELECT"
        )
    _refuse_loose_ends(text, tokens)
    _take_online(tokens)
    within = _take_within(text, tokens)
    tumble = _take_tumble(text, tokens)
    return Statement(_select(text, tokens), text, within, tumble)


def _refuse_loose_ends(text: SqlText, tokens: list[Token]) -> None:
    """The parser forgives a comma, an ON or an AS with nothing behind it; to us it is a condition or a column lost."""
    for token, after, then in zip(tokens, [*tokens[1:], None], [*tokens[2:], None, None], strict=False):
        within = after is not None and _is_word(after, "WITHIN") and then is not None and then.token_type is _T.NUMBER
        ends = after is None or after.token_type in _CLAUSES | _CLOSES or within
        if ends and token.token_type in _NEEDS_MORE:
            raise text.error_at(token.start, f"nothing follows {short(token.text)}", "complete it, or take it out")
        opens = token.token_type in _CLAUSES | {_T.SELECT, _T.L_PAREN, _T.ON}
        if opens and after is not None and after.token_type is _T.COMMA:
            raise text.error_at(after.start, "nothing stands before this comma", "take it out")


def _select(text: SqlText, tokens: list[Token]) -> exp.Select:
    while tokens[-1].token_type is _T.SEMICOLON:
        tokens.pop()
    second = next((token for token in tokens if token.token_type is _T.SEMICOLON), None)
    if second is not None:
        raise text.error_at(second.start, "a second statement follows", "write one SELECT")
    token: Token | None = None
    try:
        roots = _Parser().parse(tokens, text.text)
        root = roots[0] if len(roots) == 1 else None
        if isinstance(root, exp.Select):
            return root
        if isinstance(root, exp.SetOperation):
            word = type(root).__name__.upper()
            raise text.error_at(tokens[0].start, f"{word} is not supported", "write one query for each SELECT")
    except _Unparsable as unparsable:
        token = unparsable.token
    except (RecursionError, _OutOfSteps):
        raise text.error_at(0, "the query nests too deep", "write it flatter") from None
    except SqlglotError:
        token = None
    if token is None or not token.text:
        raise text.error_at(len(text.text), "the query ends too early or is no SELECT", "complete it")
    raise text.error_at(token.start, f"{short(token.text)} is not understood here", "correct the SQL before or at it")


# --- the three words -------------------------------------------------------------------------------------------------


def _is_word(token: Token, word: str) -> bool:
    return token.token_type not in {_T.IDENTIFIER, _T.STRING} and token.text.upper() == word


def _take_online(tokens: list[Token]) -> None:
    """ONLINE says what every query here is: answers come as soon as they are found. It changes nothing."""
    if len(tokens) < 3 or not _is_word(tokens[1], "ONLINE"):
        return
    after = tokens[2].token_type
    star_ends_item = after is _T.STAR and len(tokens) > 3 and tokens[3].token_type in {_T.COMMA, _T.FROM}
    if star_ends_item or after not in _CONTINUES | {_T.STAR}:
        del tokens[1]


def _depths(tokens: list[Token]) -> list[int]:
    depths, depth = [], 0
    for token in tokens:
        depth -= token.token_type is _T.R_PAREN
        depths.append(depth)
        depth += token.token_type is _T.L_PAREN
    return depths


def _take_within(text: SqlText, tokens: list[Token]) -> int | None:
    within: int | None = None
    depths = _depths(tokens)
    position = 1
    while position < len(tokens):
        token, before = tokens[position], tokens[position - 1]
        named = before.token_type in {_T.DOT, _T.ALIAS, _T.SELECT, _T.COMMA} or _is_operator(tokens, position + 1)
        if depths[position] != 0 or not _is_word(token, "WITHIN") or named:
            position += 1
            continue
        if within is not None:
            raise text.error_at(token.start, "WITHIN stands twice", "keep one")
        within, end = _length(text, tokens, position + 1, "WITHIN", "WITHIN 10 MINUTES")
        if end < len(tokens) and tokens[end].token_type not in _AFTER_WITHIN:
            raise text.error_at(
                tokens[end].start,
                f"{short(tokens[end].text)} stands after WITHIN",
                "put WITHIN after the joins and WHERE, before or after GROUP BY",
            )
        del tokens[position:end], depths[position:end]
    return within


def _is_operator(tokens: list[Token], position: int) -> bool:
    return position < len(tokens) and tokens[position].token_type in _CONTINUES - {_T.DASH, _T.SEMICOLON}


def _length(text: SqlText, tokens: list[Token], position: int, word: str, example: str) -> tuple[int, int]:
    """The length of time written from `position` on, and the position behind it."""
    start = tokens[position].start if position < len(tokens) else len(text.text)
    remedy = f"write a length such as {example} (units: {_UNITS})"
    negative = position < len(tokens) and tokens[position].token_type is _T.DASH
    position += negative
    if position >= len(tokens) or tokens[position].token_type not in {_T.NUMBER, _T.STRING}:
        raise text.error_at(start, f"{word} has no length", remedy)
    written = [tokens[position].text] if tokens[position].token_type is _T.NUMBER else tokens[position].text.split()
    number, position = written[0] if written else "", position + 1
    unit = written[1] if len(written) == 2 else ""
    follows = tokens[position] if position < len(tokens) else None
    if not unit and follows and follows.text.isalpha() and follows.token_type not in _AFTER_WITHIN:
        unit, position = follows.text, position + 1
    if not unit:
        raise text.error_at(start, f"the length of {word} has no unit", remedy)
    length = interval_us(number, unit)
    if length is None:
        raise text.error_at(start, f"{short(number)} {short(unit)} is no length of time", remedy)
    if negative or length < 0:
        raise text.error_at(start, f"the length of {word} is negative", remedy)
    return length, position


def _take_tumble(text: SqlText, tokens: list[Token]) -> int | None:
    """Of GROUP BY it goes altogether. In the select list its length goes, once it is found to be that of GROUP BY:
    TUMBLE() is left for the checker to find at its place."""
    depths = _depths(tokens)
    group = next((i for i, t in enumerate(tokens) if t.token_type is _T.GROUP_BY and depths[i] == 0), len(tokens))
    start = next((i for i, t in enumerate(tokens) if t.token_type is _T.FROM and depths[i] == 0), group)
    found = [
        i for i in range(len(tokens) - 1) if _is_word(tokens[i], "TUMBLE") and tokens[i + 1].token_type is _T.L_PAREN
    ]
    if not found:
        return None
    selected, others = [i for i in found if i < start], [i for i in found if i > start]
    for position in others:
        begins = tokens[position - 1].token_type in {_T.GROUP_BY, _T.COMMA}
        if len(others) > 1 or position < group or depths[position] != 0 or not begins:
            remedy = "write GROUP BY ..., TUMBLE(1 MINUTE)"
            raise text.error_at(
                tokens[position].start, "outside the select list TUMBLE stands once, in GROUP BY", remedy
            )
    lengths = {position: _tumble_length(text, tokens, position) for position in found}
    if not others:
        first = selected[0]
        written = _written(tokens, first, lengths[first][1])
        raise text.error_at(
            tokens[first].start,
            f"GROUP BY has no {written}",
            f"write GROUP BY ..., {written} to group by spans of time",
        )
    (position,) = others
    length, end = lengths[position]
    for other in selected:
        if lengths[other][0] != length:
            problem = f"{_written(tokens, other, lengths[other][1])} is not the span that GROUP BY has"
            raise text.error_at(tokens[other].start, problem, f"write {_written(tokens, position, end)} here too")
    if end < len(tokens) and tokens[end].token_type is _T.COMMA:
        end += 1
    else:
        position -= 1  # the comma before it, or GROUP BY itself when nothing else is grouped by
    del tokens[position:end]
    for other in reversed(selected):
        del tokens[other + 2 : lengths[other][1] - 1]
    return length


def _tumble_length(text: SqlText, tokens: list[Token], position: int) -> tuple[int, int]:
    """The length of the TUMBLE at `position`, and the position behind its parenthesis."""
    length, end = _length(text, tokens, position + 2, "TUMBLE", "TUMBLE(1 MINUTE)")
    if end >= len(tokens) or tokens[end].token_type is not _T.R_PAREN:
        raise text.error_at(tokens[position].start, "TUMBLE takes one length", "write TUMBLE(1 MINUTE)")
    if length == 0:
        raise text.error_at(tokens[position].start, "TUMBLE takes a length above zero", "write TUMBLE(1 MINUTE)")
    return length, end + 1


def _written(tokens: list[Token], position: int, end: int) -> str:
    return short(f"TUMBLE({' '.join(token.text for token in tokens[position + 2 : end - 1])})")
