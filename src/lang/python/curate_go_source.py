"""Which tests a Go file defines, read from its text for `curate_go`."""

import re

TEST_FUNCTION = re.compile(r"^func[ \t]+(Test|Fuzz|Example)(\w*)[ \t]*\(([^)]*)\)", re.MULTILINE)
OUTPUT_COMMENT = re.compile(r"^[\s/*]*(?:unordered )?output:", re.IGNORECASE)


def without_text(source):
    """Returns the source with comments and literals blanked, of the same length, and the comments as `(start, end)`."""
    blanked, comments = list(source), []
    token = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|`[^`]*`|'(?:\\.|[^'\\\n])+'", re.DOTALL)
    for match in token.finditer(source):
        if match.group().startswith(("//", "/*")):
            comments.append(match.span())
        for at in range(*match.span()):
            if blanked[at] != "\n":
                blanked[at] = " "
    return "".join(blanked), comments


def tests_of(source):
    """Returns the names of the tests, fuzz tests and examples with an output that a file defines, in order."""
    blanked, comments = without_text(source)
    names = []
    for match in TEST_FUNCTION.finditer(blanked):
        kind, rest, parameters = match.groups()
        if rest[:1].islower():
            continue
        is_test = re.search(r"\*\s*(?:\w+\.)?%s$" % ("T" if kind == "Test" else "F"), parameters.strip())
        if kind == "Example":
            end = blanked.find("\n}", match.end())
            inside = [span for span in comments if match.end() < span[0] < (end if end >= 0 else len(source))]
            if not parameters.strip() and inside and OUTPUT_COMMENT.match(last_comment(source, inside)):
                names.append(kind + rest)
        elif is_test:
            names.append(kind + rest)
    return names


def last_comment(source, spans):
    """Returns the last comment, lines that follow one another being one."""
    start, end = spans[-1]
    for before in reversed(spans[:-1]):
        if source[before[1] : start].strip() or source[before[1] : start].count("\n") > 1:
            break
        start = before[0]
    return source[start:end]
