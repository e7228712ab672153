# SPDX-License-Identifier: MIT
"""Reads the part of C in which kernels are written: one tokenizer, and a parser of statements and expressions.

Nodes are instances of Node. Every rule of ferry_rules.py reads these nodes, and every replacement of a name uses the
tokens, so that no rule searches the text itself.
"""

import re

TYPE_WORDS = frozenset("void bool char short int long float double signed unsigned _Bool _Complex const volatile static register auto "
                       "inline restrict struct union enum typedef extern".split())
TAG_WORDS = ("struct", "union", "enum")
# Words of C that begin no expression, and that this parser does not read elsewhere.
STATEMENT_WORDS = frozenset("if else for while do switch case default break continue return goto".split())
SIGNS = re.compile(r"<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.()\[\]{}]")
NUMBER = re.compile(r"\.?\d(?:[eEpP][+-]|[\w.])*")
WORD = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'')
DIGRAPH = re.compile(r"<:|:>|<%|%>|%:")
TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
BINARY = {sign: level for level, signs in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")) for sign in signs.split()}
ASSIGNMENTS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())


class CodeError(Exception):
    """The text is not in this part of C. The message says where. `variable` names a result whose value is meant."""

    variable = ""


class Token:
    """One word, number, string or sign, and where it stands in the text."""

    __slots__ = ("kind", "text", "begin")

    def __init__(self, kind, text, begin):
        self.kind = kind  # "word", "number", "quoted" or "sign"
        self.text = text
        self.begin = begin

    @property
    def end(self):
        return self.begin + len(self.text)


class Node:
    """A statement or an expression. `parts` are its children, and `token` is its name or sign. Brackets around it stand outside of `begin` and
    `end`, and inside of `outer_begin` and `outer_end`."""

    __slots__ = ("kind", "token", "parts", "begin", "end", "outer_begin", "outer_end")

    def __init__(self, kind, token, parts, begin, end):
        self.kind = kind
        self.token = token
        self.parts = parts
        self.begin = self.outer_begin = begin
        self.end = self.outer_end = end


def tokens(text):
    """The tokens of a text."""
    trigraph = TRIGRAPH.search(text)
    if trigraph:
        raise CodeError(f"holds '{trigraph.group()}', which C reads as another character; expected a space between the question marks")
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if DIGRAPH.match(text, at):
            raise CodeError(f"holds '{text[at:at + 2]}', another spelling of a bracket or of '#'; expected the usual one")
        for kind, pattern in (("word", WORD), ("number", NUMBER), ("quoted", QUOTED), ("sign", SIGNS)):
            match = pattern.match(text, at)
            if match:
                found.append(Token(kind, match.group(), at))
                at = match.end()
                break
        else:
            raise CodeError(f"holds {text[at]!r} where C has no such character; expected statements of C alone")
    return found


def with_names(text, names, calls):
    """The text with each word of `names` replaced, and each word of `calls` that is called. Words after '.' and '->' are members."""
    made, at, before = [], 0, ""
    found = tokens(text)
    for token, following in zip(found, [one.text for one in found[1:]] + [""]):
        known = calls if following == "(" and token.text in calls else names
        if token.kind == "word" and token.text in known and before not in (".", "->"):
            made += [text[at:token.begin], known[token.text]]
            at = token.end
        before = token.text
    return "".join([*made, text[at:]])


def with_changes(text, changes):
    """The text with other words in places of it: (begin, end, words), none inside another. Of words that are put in at one place, the
    later of the list stand first."""
    for begin, end, words in sorted(changes, key=lambda one: one[:2], reverse=True):
        text = text[:begin] + words + text[end:]
    return text


def called_names(text):
    """The names that a text calls, in the order of their first calls."""
    found = tokens(text)
    before = [""] + [token.text for token in found]
    return list(dict.fromkeys(one.text for last, one, following in zip(before, found, found[1:])
                              if one.kind == "word" and following.text == "(" and last not in (".", "->")))


class Parser:
    """Parses the statements or the expression of one text. `types` are the names of types besides the words of C."""

    def __init__(self, text, types):
        self.text = text
        self.types = set(types)
        self.tokens = tokens(text)
        self.at = 0
        self.unknown_types = {}  # name: token, of words that stand where a type must stand
        self.has_pointers = False  # whether a variable or a cast is a pointer

    # -- tokens --

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def kind(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at].kind if at < len(self.tokens) else ""

    def take(self, expected=None):
        if self.at == len(self.tokens):
            raise CodeError(f"ends where '{expected or 'an expression'}' is missing")
        token = self.tokens[self.at]
        if expected is not None and token.text != expected:
            self.fail(f"expected '{expected}'")
        self.at += 1
        return token

    def fail(self, expected):
        if self.at >= len(self.tokens):
            raise CodeError(f"ends too early; {expected}")
        begin = self.tokens[self.at].begin
        near = self.text[begin:begin + 20].split("\n")[0].rstrip()
        raise CodeError(f"is not C at '{near}'; {expected}")

    def node(self, kind, token, parts, begin):
        return Node(kind, token, parts, begin, self.tokens[self.at - 1].end if self.at else 0)

    def begin(self):
        return self.tokens[self.at].begin if self.at < len(self.tokens) else len(self.text)

    # -- types --

    def is_type(self, ahead=0):
        word = self.peek(ahead)
        return self.kind(ahead) == "word" and (word in TYPE_WORDS or word in self.types)

    def starts_declaration(self):
        """A type, or a word of which only a type can be meant: `real x`, `real *x =` and `real *x;`."""
        if self.is_type():
            return True
        if self.kind() != "word" or self.peek() in STATEMENT_WORDS or self.peek() == "sizeof":
            return False
        if self.kind(1) == "word":
            return True
        return self.peek(1) == "*" and self.kind(2) == "word" and self.peek(3) in ("=", ";")

    def specifiers(self):
        """The words of a type. Returns (is it a typedef, declarations of enumerators)."""
        is_typedef, found, has_name = False, [], False
        while self.is_type() or not has_name and self.kind() == "word":
            token = self.take()
            is_typedef |= token.text == "typedef"
            if token.text in TAG_WORDS:
                found += self.tag(token.text)
                has_name = True
            elif token.text in TYPE_WORDS:
                has_name |= token.text not in ("const", "volatile", "static", "register", "typedef", "extern", "inline", "auto")
            else:
                if token.text not in self.types:
                    self.unknown_types.setdefault(token.text, token)
                has_name = True
            if has_name and self.kind() == "word" and self.peek() not in TYPE_WORDS:
                break
        return is_typedef, found

    def tag(self, word):
        name = self.take() if self.kind() == "word" else None
        if self.peek() != "{":
            if name is not None and name.text not in self.types:
                self.unknown_types.setdefault(name.text, name)
            return []
        if name is not None:
            self.types.add(name.text)
        self.take("{")
        found = []
        while self.peek() != "}":
            if word == "enum":
                token = self.take()
                value = [self.assignment()] if self.peek() == "=" and self.take("=") else []
                found.append(self.node("declared", token, value, token.begin))
                if self.peek() != "}":
                    self.take(",")
            else:
                self.specifiers()
                self.declarators(False)
        self.take("}")
        return found

    def declarator(self):
        """The name of what is declared, or None in a cast; the lengths of arrays."""
        while self.peek() == "*" or self.peek() in ("const", "restrict", "volatile"):
            self.has_pointers |= self.take().text == "*"
        name = self.take() if self.kind() == "word" else None
        lengths = []
        while self.peek() == "[":
            self.take("[")
            lengths += [] if self.peek() == "]" else [self.expression()]
            self.take("]")
        return name, lengths

    def declarators(self, is_typedef):
        found = []
        while self.peek() != ";":
            begin = self.begin()
            name, parts = self.declarator()
            if name is None:
                self.fail("expected the name of a variable")
            if self.peek() == "=":
                self.take("=")
                parts.append(self.initializer())
            found.append(self.node("declared", name, parts, begin))
            if is_typedef:
                self.types.add(name.text)
            if self.peek() != ";":
                self.take(",")
        self.take(";")
        return [] if is_typedef else found

    def initializer(self):
        if self.peek() != "{":
            return self.assignment()
        begin, parts = self.begin(), []
        self.take("{")
        while self.peek() != "}":
            while self.peek() in (".", "["):
                if self.take().text == ".":
                    self.take()
                else:
                    parts.append(self.expression())
                    self.take("]")
                if self.peek() == "=":
                    self.take()
            parts.append(self.initializer())
            if self.peek() != "}":
                self.take(",")
        self.take("}")
        return self.node("list", None, parts, begin)

    def type_in_brackets(self):
        """Whether a type stands in the brackets that begin here."""
        if self.peek() != "(":
            return False
        if self.is_type(1):
            return True
        return (self.kind(1) == "word" and self.peek(2) == ")" and self.kind(3) in ("word", "number", "quoted")
                and self.peek(3) not in STATEMENT_WORDS)

    def take_type(self):
        self.take("(")
        self.specifiers()
        self.declarator()
        self.take(")")

    # -- expressions --

    def expression(self):
        begin, left = self.begin(), self.assignment()
        while self.peek() == ",":
            token = self.take()
            left = self.node("comma", token, [left, self.assignment()], begin)
        return left

    def assignment(self):
        begin, left = self.begin(), self.conditional()
        if self.peek() in ASSIGNMENTS:
            token = self.take()
            return self.node("assign", token, [left, self.assignment()], begin)
        return left

    def conditional(self):
        begin, condition = self.begin(), self.binary(0)
        if self.peek() != "?":
            return condition
        token = self.take()
        yes = self.expression()
        self.take(":")
        return self.node("conditional", token, [condition, yes, self.conditional()], begin)

    def binary(self, level):
        begin, left = self.begin(), self.unary()
        while BINARY.get(self.peek(), -1) >= level:
            token = self.take()
            left = self.node("binary", token, [left, self.binary(BINARY[token.text] + 1)], begin)
        return left

    def unary(self):
        begin = self.begin()
        if self.peek() in ("-", "+", "!", "~", "*", "&", "++", "--"):
            token = self.take()
            return self.node("unary", token, [self.unary()], begin)
        if self.peek() == "sizeof":
            token = self.take()
            if self.type_in_brackets():
                self.take_type()
                return self.node("sizeof", token, [], begin)
            return self.node("sizeof", token, [self.unary()], begin)
        if self.type_in_brackets():
            self.take_type()
            if self.peek() == "{":
                return self.postfix(self.initializer(), begin)
            return self.node("cast", None, [self.unary()], begin)
        return self.postfix(self.primary(), begin)

    def primary(self):
        begin = self.begin()
        if self.peek() == "(":
            self.take("(")
            inner = self.expression()
            inner.outer_begin, inner.outer_end = begin, self.take(")").end
            return inner
        kind = self.kind()
        if kind == "quoted":
            token = self.take()
            while self.kind() == "quoted":
                self.take()
            return self.node("quoted", token, [], begin)
        if kind not in ("word", "number") or self.peek() in STATEMENT_WORDS:
            self.fail("expected an expression")
        return self.node("name" if kind == "word" else kind, self.take(), [], begin)

    def postfix(self, left, begin):
        while self.peek() in ("(", "[", ".", "->", "++", "--"):
            token = self.take()
            if token.text == "(":
                parts = [left]
                while self.peek() != ")":
                    parts.append(self.assignment())
                    if self.peek() != ")":
                        self.take(",")
                self.take(")")
                left = self.node("call", token, parts, begin)
            elif token.text == "[":
                index = self.expression()
                self.take("]")
                left = self.node("index", token, [left, index], begin)
            elif token.text in (".", "->"):
                left = self.node("member", self.take(), [left], begin)
            else:
                left = self.node("postfix", token, [left], begin)
        return left

    # -- statements --

    def statements(self, end=""):
        begin, parts = self.begin(), []
        while self.peek() != end:
            parts.append(self.statement())
        return self.node("block", None, parts, begin)

    def statement(self):
        begin, word = self.begin(), self.peek()
        if word == "{":
            self.take()
            inner = self.statements("}")
            self.take("}")
            return inner
        if word in STATEMENT_WORDS:
            return getattr(self, "read_" + word, self.read_jump)(self.take(), begin)
        if self.kind() == "word" and self.peek(1) == ":":
            token = self.take()
            self.take(":")
            return self.node("label", token, [], begin)
        if self.starts_declaration():
            is_typedef, found = self.specifiers()
            return self.node("declare", None, found + self.declarators(is_typedef), begin)
        parts = [] if word == ";" else [self.expression()]
        self.take(";")
        return self.node("expression", None, parts, begin)

    def in_brackets(self):
        self.take("(")
        inner = self.expression()
        self.take(")")
        return inner

    def read_if(self, token, begin):
        parts = [self.in_brackets(), self.statement()]
        if self.peek() == "else":
            self.take()
            parts.append(self.statement())
        return self.node("if", token, parts, begin)

    def read_for(self, token, begin):
        self.take("(")
        parts = [self.statement()]
        parts.append(self.statement())
        if self.peek() != ")":
            step = self.expression()
            self.take(")")
            return self.node("loop", token, [*parts, self.statement(), step], begin)
        self.take(")")
        return self.node("loop", token, [*parts, self.statement()], begin)

    def read_while(self, token, begin):
        return self.node("loop", token, [self.in_brackets(), self.statement()], begin)

    def read_do(self, token, begin):
        body = self.statement()
        self.take("while")
        condition = self.in_brackets()
        self.take(";")
        return self.node("loop", token, [body, condition], begin)

    def read_switch(self, token, begin):
        return self.node("switch", token, [self.in_brackets(), self.statement()], begin)

    def read_case(self, token, begin):
        value = self.conditional()
        self.take(":")
        return self.node("case", token, [value], begin)

    def read_default(self, token, begin):
        self.take(":")
        return self.node("case", token, [], begin)

    def read_return(self, token, begin):
        parts = [] if self.peek() == ";" else [self.expression()]
        self.take(";")
        return self.node("jump", token, parts, begin)

    def read_jump(self, token, begin):
        """break, continue, goto, and an else without its if."""
        if token.text == "else":
            self.at -= 1
            self.fail("expected a statement")
        if token.text == "goto":
            self.take()
        self.take(";")
        return self.node("jump", token, [], begin)


def parse_statements(text, types):
    """(the block of statements, the parser) of a text."""
    parser = Parser(text, types)
    return parser.statements(), parser


def parse_expression(text, types):
    """(the expression, the parser) of a text."""
    parser = Parser(text, types)
    found = parser.expression()
    if parser.peek():
        parser.fail("expected one expression")
    return found, parser
