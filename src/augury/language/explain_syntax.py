"""A parser's surprise → a diagnostic a person can act on: what stood there, what could have, what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lark import Token, UnexpectedToken

from augury.diagnostics import Diagnostic, Mark, Span, closest
from augury.language.lexer import CONTEXTUAL, RESERVED

_SHOWN = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "DURATION": "a duration such as 15m",
    "TIME": "a time such as [2026-01-31]",
    "SQL": "SELECT",
    "UNDERSCORE": "`_`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "COLON": "`:`",
    "EQ": "`=`",
    "NE": "`<>`",
    "LE": "`<=`",
    "GE": "`>=`",
    "LT": "`<`",
    "GT": "`>`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "SLASH": "`/`",
    "SLASHPLUS": "`/+`",
    "PERCENT": "`%`",
    "BAR": "`|`",
    "CONCAT": "`||`",
    "$END": "`;`",
}
_OPERATORS = frozenset(
    {
        *("AND", "OR", "EQ", "NE", "LE", "GE", "LT", "GT", "PLUS", "MINUS"),
        *("STAR", "SLASH", "SLASHPLUS", "PERCENT", "BAR", "CONCAT", "IS", "IN", "LIKE", "BETWEEN"),
    }
)
# What may follow a name beside operators, and is not worth a word where operators are named.
_BESIDE_OPERATORS = frozenset({"NOT", "SEQUENCE", "LPAR", "LSQB", "LBRACE", "DOT", "STRING"})
_CLAUSES = frozenset({"OVER", "PARTITION", "ORDER", "WHERE", "WITHIN", "COLLECT", "CONTEXT", "RETURN"})
CLOSERS = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}
CLOSER_OF = {opener: closer for closer, opener in CLOSERS.items()}
_MATCH_WORDS = frozenset(
    {"RELATIVE", "PRIOR", "SEQUENCE", "FIRSTAFTER", "BEFORE", "HAPPENED", "PREFIX", "FIRST", "START", "EXISTS", "EVERY"}
)
_COMPOSITE_WORDS = frozenset({"APERIODIC", "PERIODIC", "AT", "BY", "BETWEEN"})

# What a part of a statement looks like, by its keyword, for mistakes inside it.
_PART_FORMS = {
    "ID": "ID (attribute, …)",
    "LIFESPAN": "LIFESPAN (5d)",
    "OVER": "OVER (Class, …)",
    "PARTITION": "PARTITION BY attribute, …",
    "ORDER": "ORDER BY OCCURRENCE ALLOWING 1h",
    "COLLECT": "COLLECT ALL, or COLLECT MAX(x) AS attribute",
    "CONTEXT": "CONTEXT CHRONICLE",
    "RETURN": "RETURN expression AS attribute",
    "OCCURRING": "OCCURRING AT occTime",
    "WHERE": "WHERE condition",
    "CONDITION": "CONDITION amount > 0",
    "ON": "ON condition DO action(…)",
    "DO": "DO action(…)",
    "ACTION": "ACTION action(…), POST Class(…)",
    "ALTERNATIVEACTION": "ALTERNATIVEACTION action(…)",
    "COLUMNS": "COLUMNS (column AS attribute, …)",
    "RULESTRUC": "RULESTRUC R1(x) > (R2, R3)",
    "RETURNS": "RETURNS INT : rule",
    "CAST": "CAST(x AS INT)",
    "CASE": "CASE WHEN condition THEN x ELSE y END",
    "BETWEEN": "x BETWEEN low AND high, or BETWEEN [2026-01-01] [2026-01-31] E",
    "ANY": "ANY{2, A, B, C}",
    "PERIODIC": "PERIODIC(A, [5m], B)",
    "APERIODIC": "APERIODIC(A, B, C)",
    "EXISTS": "EXISTS x E",
    "RELATIVE": "relative(E, F) or relative+(E)",
}
# The same of the statements that join a program to the world, whose words are names elsewhere.
_WIRING_FORMS = {
    "EVERY": "EVERY 30s",
    "ITEMS": "ITEMS '$.deliveries[*]'",
    "FIELDS": "FIELDS (attribute = 'where it is', …)",
    "NEXT": "NEXT '$.next'",
    "FORWARD": "FORWARD CHANGED",
    "WITHDRAW": "WITHDRAW VANISHED",
    "WITH": "WITH (timeout = 10s, secret = ENV 'NAME')",
    "ENV": "ENV 'NAME'",
    "EVENT": "BIND action TO EVENT Class",
}
_NO_PART = frozenset({"BY", "AS", "WHEN", "THEN", "ELSE", "AT", "POST", "TRUE", "FALSE", "NULL", "NOW", "NOT"})
_BRACKETED = frozenset({"ID", "LIFESPAN", "OVER", "COLUMNS", "CAST", "PERIODIC", "APERIODIC", "RELATIVE", "ANY"})
_CLASS_FORM = "EVENT CLASS name (attribute TYPE, …) ID (attribute, …)"
_STATEMENT_FORMS = {
    "COMPLEX": f"CREATE COMPLEX {_CLASS_FORM} AS MATCH …, AS COMPOSITE … or AS SELECT …",
    "CLOCK": "CREATE CLOCK EVENT CLASS name EVERY 5m, or AT '0 9 * * 1-5' ZONE 'Europe/Vienna'",
    "IMMUTABLE": f"CREATE IMMUTABLE SUBSCRIBED {_CLASS_FORM} LIFESPAN (5d)",
    "MUTABLE": f"CREATE MUTABLE SUBSCRIBED {_CLASS_FORM} LIFESPAN (5d)",
    "SUBSCRIBED": f"CREATE MUTABLE SUBSCRIBED {_CLASS_FORM} LIFESPAN (5d)",
    "SET": "SET CHRONON 15m, SET ARCHIVE ON or SET HISTORY RETAIN 30d",
    "DEFINE": "DEFINE name(argument, …) = expression",
    "SOURCE": "SOURCE Class FROM COLUMNS (column AS attribute, …)",
    "GROUP": "RULE GROUP name (rule, …)",
    "RULE": "RULE name (parameter TYPE, …) CONDITION … ACTION … ALTERNATIVEACTION …",
    "TRIGGER": "TRIGGER name (parameter TYPE, …) TRIGGEREVENT … COMPOSITEEVENT … RULESTRUC … ON FAILURE … RETURNS …",
    "BIND": "BIND action TO LOG, or BIND action TO WEBHOOK 'https://…' WITH (timeout = 10s)",
    "DETECT": "DETECT Class FROM HTTP 'https://…' EVERY 30s ITEMS '…' FIELDS (attribute = '…')",
}
# After which word of which statement a kind stands, and one that may stand there.
_KIND_STARTS = {("BIND", "TO"): "WEBHOOK", ("DETECT", "FROM"): "HTTP"}
_ACTION_STARTS = frozenset({"DO", "ACTION", "ALTERNATIVEACTION", "POST", "COMMA"})
# Two tokens that touch, and what is meant by them.
_PAIRS = {"=>": ">=", "=<": "<=", "><": "<>", "&&": "AND", "->": ">", "/*": "--", "//": "--", "::": "CAST"}
_SCALAR_STARTS = frozenset({"WHERE", "RETURN", "COLLECT", "ON", "DO", "CONDITION", "ACTION", "OCCURRING"})
# What a token means in another place, by the language it stands in.
_ELSEWHERE = {
    ("MATCH", "GT"): "`>` belongs to COMPOSITE: in a MATCH write prior(E, F), or sequence(E, F) for the next event",
    ("MATCH", "LBRACE"): "`{n}` belongs to COMPOSITE: in a MATCH write <n> E, or EVERY <n> E",
    ("MATCH", "CONCAT"): "write OR for either; `|` is a pipe in a MATCH",
    ("COMPOSITE", "CONCAT"): "write `|` or OR for either",
    ("COMPOSITE", "LT"): "`<n>` belongs to MATCH: in a COMPOSITE write E{n}",
    ("MATCH", "GROUP"): "write PARTITION BY attribute",
    ("COMPOSITE", "GROUP"): "write PARTITION BY attribute",
    ("MATCH", "LIFESPAN"): "LIFESPAN stands before AS",
    ("COMPOSITE", "LIFESPAN"): "LIFESPAN stands before AS",
}
# What was meant by a token, by the one before it.
_BEHIND = {
    ("NOW", "LPAR"): "write NOW without brackets",
    ("EVERY", "NUMBER"): "write EVERY <3> E",
    **{("IN", kind): "write x IN (1, 2)" for kind in ("NUMBER", "STRING", "NAME")},
    **{("IS", kind): "write = to compare; IS stands before NULL only" for kind in ("NUMBER", "STRING", "NAME", "TRUE")},
}


@dataclass(frozen=True, slots=True)
class _Surprise:
    """A token that the parser did not expect, what surrounds it, and what was expected."""

    token: Token
    before: Sequence[Token]
    after: Sequence[Token]
    expected: frozenset[str]

    @property
    def at_end(self) -> bool:
        return self.token.type == "$END"

    @property
    def last(self) -> Token | None:
        return self.before[-1] if self.before else None

    @property
    def following(self) -> Token | None:
        return self.after[0] if self.after else None

    @property
    def language(self) -> str:
        """MATCH or COMPOSITE where it stands in such an expression, or empty."""
        words = [token.type for token in self.before]
        if words[:1] == ["DEFINE"]:
            words = ["MATCH", *words[words.index("EQ") :]] if "EQ" in words else []
        depth = 0
        for i in range(len(words) - 1, -1, -1):
            depth += (words[i] == "RSQB") - (words[i] == "LSQB")
            if words[i] in _SCALAR_STARTS or (depth < 0 and words[i - 1] != "COMMA"):
                return ""
            if words[i] in ("MATCH", "COMPOSITE", "COMPOSITEEVENT"):
                return words[i].removesuffix("EVENT")
        return ""


def syntax_error(error: UnexpectedToken, tokens: Sequence[Token], end: int) -> Diagnostic:
    """Say what is wrong at the token the parser did not expect."""
    token = error.token
    index = len(tokens) if token.type == "$END" else next((i for i, t in enumerate(tokens) if t is token), 0)
    expected = frozenset(error.accepts or error.expected)
    surprise = _Surprise(token, tokens[:index], tokens[index + 1 :], expected)
    span = Span(end, end) if surprise.at_end else _span(token)
    if (brackets := _bracket_error(surprise, span)) is not None:
        return brackets
    found = f"`{_short(str(token.value))}`"
    message = "the statement ends too early" if surprise.at_end else f"{found} is not expected here"
    torn = next((t for t in reversed(surprise.before) if t.type == "STRING" and "\n" in t.value), None)
    others = (Mark(Span(torn.start_pos or 0, (torn.start_pos or 0) + 1), "a string of several lines"),) if torn else ()
    proposal = "is its closing quote missing in the first line?" if torn else _proposal(surprise)
    return Diagnostic("E100", message, Mark(span, _expected(surprise)), others, (proposal,) if proposal else ())


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 30 else flat[:29] + "…"


# ---- brackets


def _bracket_error(surprise: _Surprise, span: Span) -> Diagnostic | None:
    """Brackets that are not closed, closed by another kind, or never opened."""
    token, opened = surprise.token, _unclosed(surprise.before)
    if opened is None:
        if token.type in CLOSERS:
            opener = _SHOWN[CLOSERS[token.type]]
            return Diagnostic("E115", f"{_SHOWN[token.type]} closes nothing", Mark(span, f"no {opener} is open here"))
        return None
    here = Mark(_span(opened), "opened here")
    closer = CLOSER_OF[opened.type]
    if token.type in CLOSERS and token.type != closer:
        message = f"{_SHOWN[token.type]} does not close {_SHOWN[opened.type]}"
        return Diagnostic("E115", message, Mark(span, f"expected {_SHOWN[closer]}"), (here,))
    starts_anew = token.type in ("ON", "AS", "CREATE", "DEFINE", "TRIGGER", "SET") or token.type in _CLAUSES
    if closer in surprise.expected and (surprise.at_end or starts_anew):
        label = "the statement ends here" if surprise.at_end else f"expected {_SHOWN[closer]} before this"
        return Diagnostic("E115", f"{_SHOWN[opened.type]} is not closed", Mark(span, label), (here,))
    return None


def _unclosed(tokens: Sequence[Token]) -> Token | None:
    """The innermost bracket still open after these tokens."""
    stack: list[Token] = []
    for token in tokens:
        if token.type in CLOSER_OF:
            stack.append(token)
        elif token.type in CLOSERS and stack and stack[-1].type == CLOSERS[token.type]:
            stack.pop()
    return stack[-1] if stack else None


# ---- what was meant


def _proposal(surprise: _Surprise) -> str | None:
    """What was most likely meant: the first guess that applies."""
    guesses = (_misspelt, _touching, _unit, _of_other_places, _side_by_side, _action, _keyword, _form)
    return next((text for guess in guesses if (text := guess(surprise)) is not None), None)


def _misspelt(surprise: _Surprise) -> str | None:
    token = surprise.token
    if token.type == "SELECT" and "CREATE" in surprise.expected:
        return "a SELECT derives a class: CREATE COMPLEX EVENT CLASS … AS SELECT … OCCURRING AT …"
    if token.type != "NAME" or token.value.startswith("`"):
        return None
    keywords = [name for name in surprise.expected if name in RESERVED or name in CONTEXTUAL]
    meant = closest(str(token.value), sorted([*keywords, "SELECT"] if "SQL" in surprise.expected else keywords))
    return None if meant is None else f"did you mean `{meant}`?"


def _touching(surprise: _Surprise) -> str | None:
    """Two signs that are one in other languages."""
    token = surprise.token
    for left, right in ((surprise.last, token), (token, surprise.following)):
        if left is None or right is None or left.end_pos is None or left.end_pos != right.start_pos:
            continue
        match _PAIRS.get(left.value + right.value):
            case None:
                pass
            case "--":
                return "a comment starts with two hyphens: `--`"
            case "CAST":
                return "write CAST(x AS TYPE)"
            case meant:
                return f"did you mean `{meant}`?"
    return None


def _of_other_places(surprise: _Surprise) -> str | None:
    """What has a meaning elsewhere: MATCH and COMPOSITE have operators of their own."""
    token, kind, language = surprise.token, surprise.token.type, surprise.language
    last = surprise.last.type if surprise.last is not None else ""
    if (text := _ELSEWHERE.get((language, kind)) or _BEHIND.get((last, kind))) is not None:
        return text
    if language == "MATCH" and kind in _COMPOSITE_WORDS and "PRIOR" in surprise.expected:
        return f"`{token.value}` belongs to COMPOSITE: write AS COMPOSITE …"
    if language == "COMPOSITE" and kind in _MATCH_WORDS and "APERIODIC" in surprise.expected:
        return f"`{token.value}` belongs to MATCH: in a COMPOSITE write E > F, E & F or E | F"
    if kind == "EQ" and surprise.before and surprise.before[0].type == "SET":
        return "leave out the `=`"
    if kind == "AND" and "RULESTRUC" in surprise.expected:
        return "a TRIGGEREVENT is one of several classes: A OR B; for both write COMPOSITEEVENT A & B"
    if "TIME" in surprise.expected:
        return "put the time between brackets: [2026-01-31T09:00:00Z]"
    if "IMMUTABLE" in surprise.expected and kind in ("EVENT", "$END"):
        return "say which: MUTABLE SUBSCRIBED, IMMUTABLE SUBSCRIBED, COMPLEX or CLOCK"
    return None


def _unit(surprise: _Surprise) -> str | None:
    token, following = surprise.token, surprise.following
    if token.type != "NUMBER" or "DURATION" not in surprise.expected:
        return None
    if following is not None and following.type == "NAME" and (unit := str(following.value)[0].lower()) in "dhms":
        return f"write {token.value}{unit}, without a blank"
    return f"say the unit: {token.value}s, {token.value}m, {token.value}h or {token.value}d"


def _side_by_side(surprise: _Surprise) -> str | None:
    """A comma too many, or events with nothing or a comma between them."""
    token, last, following = surprise.token, surprise.last, surprise.following
    if last is not None and last.type == "COMMA" and (token.type in CLOSERS or surprise.at_end):
        return "leave out the comma before it"
    is_event = token.type == "NAME" and (following is None or following.type != "LPAR")
    if surprise.language and "$END" in surprise.expected and (token.type == "COMMA" or is_event):
        operators = "AND, OR, prior(E, F) …" if surprise.language == "MATCH" else ">, & or |"
        return f"a {surprise.language} is one expression: combine events with {operators}"
    return None


def _action(surprise: _Surprise) -> str | None:
    """Actions have brackets, and stand behind a condition."""
    token, following, words = surprise.token, surprise.following, [t.type for t in surprise.before[-2:]]
    if surprise.expected == {"LPAR"} and words[-1:] == ["NAME"] and words[0] in _ACTION_STARTS:
        return f"an action has brackets: {surprise.before[-1].value}()"
    is_call = token.type == "NAME" and following is not None and following.type == "LPAR"
    if is_call and "ON" in surprise.expected and surprise.before[0].type != "TRIGGER":
        return f"an action needs a condition: ON ANNOUNCEMENT DO {token.value}(…)"
    return None


def _keyword(surprise: _Surprise) -> str | None:
    """A keyword where a name has to be."""
    token, following = surprise.token, surprise.following
    if token.type not in RESERVED or "NAME" not in surprise.expected or not str(token.value).isalpha():
        return None
    # In an expression a keyword is meant as a name only if it is used like one.
    used = following is not None and (following.type in _OPERATORS | {"COMMA", "DOT", "RPAR", "RSQB"})
    if _starts_expression(surprise.expected) and not used:
        return None
    return f"`{token.value}` is a keyword: to use it as a name, put it between backquotes"


def _form(surprise: _Surprise) -> str | None:
    """The form of the part, or of the statement, that the mistake is in."""
    if surprise.before and surprise.before[0].type in ("BIND", "DETECT"):
        return f"write {_wiring_form(surprise)}"
    part = _part(surprise)
    if part == "ON" and surprise.before[0].type == "TRIGGER":
        return "write ON FAILURE STOP, or ON FAILURE CONTINUE"
    if part is not None:
        return f"write {_PART_FORMS[part]}"
    in_expression = _starts_expression(surprise.expected) or "an operator" in _expected(surprise)
    if not surprise.before or in_expression:
        return None
    words = [token.type for token in (*surprise.before, surprise.token)][:2]
    form = next((_STATEMENT_FORMS[word] for word in reversed(words) if word in _STATEMENT_FORMS), None)
    return None if form is None else f"write {form}"


def _wiring_form(surprise: _Surprise) -> str:
    """The form of a clause of BIND or DETECT that is not finished, or of the statement."""
    word = next((t.type for t in reversed(surprise.before) if t.type in _WIRING_FORMS), None)
    if word is None or "$END" in surprise.expected:
        return _STATEMENT_FORMS[surprise.before[0].type]
    return _WIRING_FORMS[word]


def _part(surprise: _Surprise) -> str | None:
    """The keyword of the part that is not finished where the mistake is."""
    if surprise.before and _starts_expression(surprise.expected):
        words = [token.type for token in surprise.before[-2:]]
        return words[-1] if words[-1] in _PART_FORMS else "EXISTS" if words[0] == "EXISTS" else None
    if "$END" in surprise.expected:
        return None
    depth = 0
    for i in range(len(surprise.before) - 1, -1, -1):
        token = surprise.before[i]
        depth += (token.type in CLOSERS) - (token.type in CLOSER_OF)
        is_word = token.type in RESERVED or (token.type in ("ID", "ORDER", "COLUMNS") and token.type in _PART_FORMS)
        if not is_word or token.type in _OPERATORS - {"BETWEEN"}:
            continue
        if token.type == "ID" and (i == 0 or surprise.before[i - 1].type != "RPAR"):
            continue
        if token.type == "ORDER" and i + 1 < len(surprise.before) and surprise.before[i + 1].type != "BY":
            continue
        if token.type in _NO_PART:
            continue
        finished = token.type in _BRACKETED and any(t.type in CLOSERS for t in surprise.before[i:]) and depth >= 0
        return token.type if token.type in _PART_FORMS and not finished else None
    return None


# ---- what could have stood there


def _starts_expression(names: frozenset[str]) -> bool:
    return names >= {"NAME", "LPAR"} and (len(names - CONTEXTUAL) > 6 or "APERIODIC" in names)


def _expected(surprise: _Surprise) -> str:
    """At most a handful of possibilities, with whole families under one word."""
    names, last = surprise.expected, surprise.last
    rest = set(names - CONTEXTUAL if "NAME" in names else names)
    if rest == {"NAME"} and last is not None and (surprise.before[0].type, last.type) in _KIND_STARTS:
        return "expected a kind such as " + _KIND_STARTS[surprise.before[0].type, last.type]
    if rest == {"NAME"} and last is not None and last.type == "NAME":
        return "expected a type such as INT"
    if _starts_expression(names):
        if "UNDERSCORE" in names:
            return "expected a variable, a constant or `_`"
        return "expected an event" if names & {"PRIOR", "APERIODIC"} else "expected a value"
    if {"DURATION", "ENV"} <= rest:
        return "expected a value such as 'text', 10s or ENV 'NAME'"
    if {"DURATION", "ON"} <= rest:
        return "expected a value such as 15m or ON"
    shown: list[str] = []
    # Of the operators only the loosest are left once the parser has taken what is before for a whole.
    if len(rest & _OPERATORS) > 3 or {"GT", "SEQUENCE"} <= rest or ("OR" in rest and "RULESTRUC" not in rest):
        rest -= _OPERATORS | _BESIDE_OPERATORS
        shown.append("an operator")
    if len(rest & _CLAUSES) > 2:
        rest -= _CLAUSES
        shown.append("a clause such as WHERE")
    shown += [_SHOWN.get(name, name) for name in sorted(rest, key=lambda n: (n == "$END", n not in _SHOWN, n))]
    if len(shown) > 6 and "CREATE" not in rest:
        shown = [*shown[:6], "…"]
    return "expected " + (" or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown))
