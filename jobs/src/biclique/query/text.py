"""A query's SQL text as the user sees it: tokens, places (line, column) and quotations for the sentences about it."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from biclique.query.conversion import short
from biclique.query.errors import QueryError

PLACE = "spec.sql"
TEXT_BYTES_MAX = 16 * 1024
NESTING_MAX = 32  # of parentheses and CASE: the parser recurses some twenty calls for each
QUOTED_MAX = 60
KEYWORD_TOKENS_MAX = 4  # `EXTRACT ( YEAR FROM` stand before the first name
_KEYWORDS: dict[type[exp.Expr], str] = {
    exp.Case: "CASE",
    exp.Cast: "CAST",
    exp.Extract: "EXTRACT",
    exp.Interval: "INTERVAL",
    exp.Neg: "-",
    exp.Not: "NOT",
    exp.Substring: "SUBSTRING",
    exp.Trim: "TRIM",
}

_FOREIGN = {
    *(TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.L_BRACE, TokenType.R_BRACE),
    *(TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW, TokenType.FARROW),
}
_OPENING = {TokenType.L_PAREN, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.END}


_OPENED = re.compile(r"Missing (['\"]) from \d+:(\d+)")  # line:offset, as sqlglot says it


class SqlText:
    """Made once for a statement; refuses what is too long or nests too deep before any parser sees it."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
            raise QueryError(PLACE, f"the query is longer than {TEXT_BYTES_MAX // 1024} kB", "shorten it")
        self.tokens = self._tokenize()
        self._check_signs()
        self._check_numbers()
        self._check_nesting()

    def _tokenize(self) -> list[Token]:
        if any(0xD800 <= ord(character) <= 0xDFFF or character == "\0" for character in self.text):
            raise QueryError(PLACE, "the query holds a character that is no text", "remove it")
        try:
            return Tokenizer().tokenize(self.text)
        except TokenError as error:
            cause = str(error.__cause__)  # what it says itself quotes half the query
        found = _OPENED.search(cause)
        if not found:
            raise QueryError(PLACE, "a comment is opened and not closed", "close it")
        quote = "double quote" if found[1] == '"' else "quote"
        raise self.error_at(int(found[2]), f"the {quote} that opens here is not closed", "close it")

    def _check_signs(self) -> None:
        """Arrays, structs and JSON paths: refused before the parser, which would log what it thinks of a path."""
        for token in self.tokens:
            if token.token_type in _FOREIGN:
                raise self.error_at(token.start, f"{token.text} is not supported", "see docs/sql.md for what is")

    def _check_numbers(self) -> None:
        """`1_000`, `0x1f` and `2nd` would be read as a number and its alias."""
        for left, right in zip(self.tokens, self.tokens[1:], strict=False):
            touches = left.token_type is TokenType.NUMBER and right.start == left.end + 1
            if touches and (right.token_type in {TokenType.VAR, TokenType.NUMBER} or right.text[:1].isalnum()):
                word = self.text[left.start : right.end + 1]
                remedy = "write digits, or put a space before a unit"
                raise self.error_at(left.start, f"{short(word)} is no number", remedy)

    def _check_nesting(self) -> None:
        depth = 0
        for token in self.tokens:
            if token.token_type in _OPENING:
                depth += 1
            elif token.token_type in _CLOSING:
                depth -= 1
            if depth > NESTING_MAX:
                raise self.error_at(
                    token.start, f"parentheses and CASE nest deeper than {NESTING_MAX}", "write it flatter"
                )

    # --- places ------------------------------------------------------------------------------------------------------

    def error_at(self, offset: int, problem: str, remedy: str = "") -> QueryError:
        before = self.text[: max(0, offset)]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return QueryError(f"{PLACE}, line {line}, column {column}", problem, remedy)

    def error(self, node: exp.Expr, problem: str, remedy: str = "") -> QueryError:
        return self.error_at(self.span(node)[0], problem, remedy)

    def span(self, node: exp.Expr) -> tuple[int, int]:
        """First and last character of a node, from what positions its parts have; else those of the part around it."""
        current: exp.Expr | None = node
        while current is not None:
            found = [(*place, part) for part in current.walk() if (place := _place(part)) is not None]
            if found:
                start, _, first = min(found, key=lambda place: place[0])
                inner: exp.Expr | None = first
                while inner is not None:
                    start = self._with_keyword(inner, start)
                    inner = inner.parent if inner is not current else None
                return start, max(end for _, end, _ in found)
            current = current.parent
        return 0, 0

    def _with_keyword(self, node: exp.Expr, start: int) -> int:
        """Only names, numbers and functions have positions: `CAST(a AS INT)` has that of `a` until it is widened."""
        keyword = _KEYWORDS.get(type(node))
        first = next((n for n, token in enumerate(self.tokens) if token.start >= start), 0)
        for token in reversed(self.tokens[max(0, first - KEYWORD_TOKENS_MAX) : first] if keyword else []):
            if token.text.upper() == keyword:
                return int(token.start)
        return start

    def follows_parenthesis(self, node: exp.Expr) -> bool:
        """Is the node's first token the first in a parenthesis? The parser adds parentheses of its own to the tree."""
        start = self.span(node)[0]
        before = [token for token in self.tokens if token.end < start]
        return bool(before) and before[-1].token_type is TokenType.L_PAREN

    def quote(self, node: exp.Expr) -> str:
        """The node as it was written, on one line and not too long."""
        start, end = self._balanced(*self.span(node))
        words = " ".join(self.text[start : end + 1].split())
        words = "".join(character if character.isprintable() else "?" for character in words)
        return words if len(words) <= QUOTED_MAX else words[: QUOTED_MAX - 3] + "..."

    def _balanced(self, start: int, end: int) -> tuple[int, int]:
        """Widened so that no parenthesis, CASE or END stands alone."""
        opened, unopened = 0, 0
        for token in self.tokens:
            if start <= token.start <= end and token.token_type in _OPENING:
                opened += 1
            elif start <= token.start <= end and token.token_type in _CLOSING:
                opened, unopened = (opened - 1, unopened) if opened else (opened, unopened + 1)
        closing = [token for token in self.tokens if token.start > end and token.token_type in _CLOSING]
        opening = [token for token in self.tokens if token.start < start and token.token_type in _OPENING]
        if opened and closing:
            end = closing[:opened][-1].end
        if unopened and opening:
            start = opening[-unopened:][0].start
        return start, end


def _place(node: exp.Expr) -> tuple[int, int] | None:
    meta = node._meta
    if meta and isinstance(meta.get("start"), int):
        return meta["start"], meta["end"]
    return None
