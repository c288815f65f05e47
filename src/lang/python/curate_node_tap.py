"""Reads the text that a tap library writes."""

import re


class TapReader(object):
    """Reads what a tap library writes, line by line, and tells a report of tests that begin and end."""

    POINT = re.compile(r"^(not )?ok\b(?: (\d+))?(?: -)?(?: (.*?))?\s*$")
    PLAN = re.compile(r"^1\.\.(\d+)")
    DIRECTIVE = re.compile(r"\s+#\s+(skip\b|todo\b|time=)(.*)$", re.I)

    def __init__(self, report, file, root):
        self._report, self._file, self._root = report, file, root
        self._rest = ""
        self._counts = {}
        self._path = []
        self._numbers = [0]
        self._plans = [None]
        # Whether what is open is known to have failed.
        self._failed = [False]
        self._block = None
        self._last = None
        self.ids = []
        self.consistent = True
        self.bailed = False

    def feed(self, text):
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line.rstrip("\r"))

    def _line(self, line):
        if self._block is not None:
            self._in_block(line)
            return
        content = line.lstrip(" ")
        spaces = len(line) - len(content)
        if content == "---" and self._last is not None:
            self._block = (spaces, [])
            return
        depth = spaces // 4
        if content.startswith("# Subtest"):
            name = content.partition(":")[2].strip()
            self._close()
            self._open(depth, name)
            return
        if content == "}":
            self._close()
            self._shrink(depth)
            del self._path[depth:]
            return
        if depth >= len(self._numbers):
            return
        if content.startswith("Bail out!"):
            self.bailed = True
        plan = self.PLAN.match(content)
        if plan:
            self._close()
            self._shrink(depth)
            self._plans[depth] = int(plan.group(1))
            return
        point = self.POINT.match(content)
        if point:
            self._close()
            self._point(depth, point)

    def _shrink(self, depth, failed=False):
        """Leaves the subtests below a depth; the plans of those that have not failed must have held."""
        while len(self._numbers) > depth + 1:
            count, plan, has_failed = self._numbers.pop(), self._plans.pop(), self._failed.pop() or failed
            self.consistent = self.consistent and (plan is None or plan == count or has_failed)

    def _open(self, depth, name):
        # The comment stands at the depth of the point that will close the subtest, or of what is in it.
        depth = min(depth, len(self._numbers) - 1)
        self._shrink(depth)
        del self._path[depth:]
        self._path.append(self._id(self._path, name))
        self._numbers.append(0)
        self._plans.append(None)
        self._failed.append(False)
        self._report.begin(self._path[-1])

    def _id(self, above, name):
        test = (above[-1] + " > " if above else self._file + "::") + name
        count = self._counts[test] = self._counts.get(test, 0) + 1
        if count > 1:
            test = "%s#%d" % (test, count)
        self.ids.append(test)
        return test

    def _point(self, depth, point):
        failed, number, name = point.group(1), point.group(2), point.group(3) or ""
        opens = name.endswith(" {")
        name = name[:-2] if opens else name
        name = name[2:] if name.startswith("- ") else name
        kind, ms, reason = None, 0, ""
        directive = self.DIRECTIVE.search(" " + name)
        if directive:
            kind, rest = directive.group(1).lower(), directive.group(2)
            name = (" " + name)[: directive.start()].strip()
            if kind == "time=":
                amount = re.match(r"([\d.]+)(ms|s)?", rest)
                ms = float(amount.group(1)) * (1000 if amount.group(2) == "s" else 1) if amount else 0
            else:
                reason = rest.strip()
        name = re.sub(r"\\([#\\])", r"\1", name).strip()
        # A subtest that was just told is closed by this point.
        closes = len(self._path) > depth and len(self._numbers) > depth + 1 and not opens
        self._shrink(depth, failed=bool(failed))
        self._numbers[depth] += 1
        if number is not None and int(number) != self._numbers[depth]:
            self.consistent = False
        if closes:
            test = self._path[depth]
            del self._path[depth:]
        else:
            del self._path[depth:]
            test = self._id(self._path, name)
        if kind == "skip":
            outcome = "skipped"
        elif kind == "todo":
            outcome = "xfailed" if failed else "skipped"
        else:
            outcome = "failed" if failed else "passed"
        self._last = (test, outcome, ms, reason)
        if opens:
            # A buffered subtest: its point comes first, then what is in it.
            self._close()
            self._path.append(test)
            self._numbers.append(0)
            self._plans.append(None)
            self._failed.append(bool(failed))

    def _in_block(self, line):
        spaces, lines = self._block
        if line.strip() == "..." and len(line) - len(line.lstrip(" ")) <= spaces:
            self._block = None
            self._close(lines)
            return
        lines.append(line[spaces:])

    def _close(self, block=()):
        """Reports the last point, with the diagnosis that followed it."""
        if self._last is None:
            return
        test, outcome, ms, reason = self._last
        self._last = None
        exception, stack, message = diagnosis(block, test)
        if outcome != "passed" and not message:
            message = reason
        self._report.begin(test)
        self._report.result(test, outcome, "call", exception, message if outcome != "passed" else "", stack)
        self._report.end(test, ms)

    def finish(self):
        self._close()
        self._shrink(0)
        plan = self._plans[0]
        self.consistent = self.consistent and (plan is None or plan == self._numbers[0])


def diagnosis(block, test):
    """Returns exception, stack and message of a point's YAML block."""
    if not block:
        return None, "", ""
    text = "\n".join(block)
    fields = dict(re.findall(r"^(\w+): *([^|>\n].*)$", text, re.M))
    stack = re.search(r"^stack: *[|>]-?\n((?:[ ]{2}.*\n?)+)", text, re.M)
    stack = stack.group(1) if stack else fields.get("stack", "")
    place = re.search(r"^at:\n((?:[ ]{2}.*\n?)+)", text, re.M)
    if place and not stack:
        at = dict(re.findall(r"^\s+(\w+): *(.*)$", place.group(1), re.M))
        file, line = at.get("file", at.get("fileName", "")).strip("'\""), at.get("line", at.get("lineNumber", "1"))
        stack = "at %s (%s:%s:1)" % (at.get("function", "test"), file, line)
    kept, skipping = [], False
    for line in block:
        # The source excerpt repeats the test, and the places are in the frames.
        if re.match(r"^\w+:", line):
            skipping = line.split(":")[0] in ("at", "stack", "source", "test", "tapCaught", "compare", "operator")
        if not skipping:
            kept.append(line)
    exception = fields.get("name") or fields.get("type") or (None if "diff" not in text and "found" not in text else "AssertionError")
    leaf = re.sub(r"#\d+\Z", "", test.partition("::")[2].rpartition(" > ")[2])
    message = "\n".join([leaf] + kept).strip()
    return (exception.strip("'\"") if exception else None), stack, message
