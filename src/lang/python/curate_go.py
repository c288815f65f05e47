"""Runs Go tests for curate and reports over the result channel.

Each package's tests are compiled (`go test -c`) before any of them runs; then every top-level test gets a process of
its own. Repository code runs in those processes only: the nonce stays here, in a process that cannot be traced.

What holds:

- A test has passed only if a process that was started for it ended with status 0, went through the whole of
  `testing`'s own machinery (the test log, which is written out at its end, is there), and reported the test as run and
  passed and never as failed or skipped. Text that looks like a pass is therefore no pass: a test that prints
  `--- PASS` and fails, dies, or leaves by `os.Exit(0)` or `syscall.Exit(0)` has failed or crashed.
- A subtest's pass counts under the same condition. Where the test around it failed, the subtests that are said to have
  passed, or were not heard of again, run once more alone, and what that process says is taken.
- The worst of several reports wins.
- Of a process's output, only the framing lines of `testing` are read as events, and failures as text for evidence.
- A test process and all its descendants are gone before the next one starts, and a binary that was touched since it
  was built is not started.

Code under test could still imitate all of this from inside its process, knowing this file; that no report from inside
a process can exclude. Ids are `import/path::TestName` and `import/path::TestName/subtest`. Examples with an output
comment and the seeds of fuzz tests are tests, benchmarks are not. `go vet` decides nothing.
"""

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import curate_channel as channel

# Seconds that a test has after SIGQUIT, on which Go prints what its goroutines do.
QUIT_GRACE_S = 2.0
TICK_S = 0.05
# How long output is read after the end of the process.
DRAIN_S = 0.5
# Kept of one test's own lines, and of a process's standard error, bytes.
MAX_LINES_BYTES = 16000
MAX_ERRORS_BYTES = 64000
MAX_LINE_BYTES = 65536
MAX_SPANS = 200
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

# What `go list ./...` leaves out.
IGNORED_DIRECTORIES = ("testdata", "vendor")

STATE = re.compile(r"=== (RUN|PAUSE|CONT|NAME)\s+(\S+)$")
VERDICT = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d+\.\d+s\)$")
LOG_POSITION = re.compile(r"^\s+([^\s:/]+\.go):(\d+): ")
STACK_POSITION = re.compile(r"^\t(/\S+\.go):(\d+)(?: .*)?$")
STACK_FUNCTION = re.compile(r"^(?:created by )?(\S.*?)(?:\(.*\))?(?: in goroutine \d+)?$")
COMPILER_LINE = re.compile(r"^((?:[^\s:#]|[^\s:#][^:\n]*[^\s:])\.go):(\d+)(?::(\d+))?: (.+)$")
TEST_FUNCTION = re.compile(r"^func[ \t]+(Test|Fuzz|Example)(\w*)[ \t]*\(([^)]*)\)", re.MULTILINE)
OUTPUT_COMMENT = re.compile(r"^[\s/*]*(?:unordered )?output:", re.IGNORECASE)


# Source text


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


# Packages


class Module(object):
    """A directory with a `go.mod`, and the flags that make the go command leave that file alone."""

    def __init__(self, directory, scratch):
        self.directory = directory
        self.flags = ["-mod=vendor"]
        if not os.path.isfile(os.path.join(directory, "vendor", "modules.txt")):
            private = tempfile.mkdtemp(dir=scratch)
            for name in ("go.mod", "go.sum"):
                if os.path.isfile(os.path.join(directory, name)):
                    with open(os.path.join(directory, name), "rb") as source:
                        write_file(os.path.join(private, name), source.read())
            self.flags = ["-mod=mod", "-modfile=" + os.path.join(private, "go.mod")]


class Package(object):
    def __init__(self, module, directory, listed):
        self.module, self.directory = module, directory
        self.path = listed["ImportPath"]
        names = [name for key in ("TestGoFiles", "XTestGoFiles", "InvalidGoFiles") for name in listed.get(key) or []]
        self.files = sorted(set(name for name in names if name.endswith("_test.go")))
        self.tests = {name: tests_of(read_text(os.path.join(directory, name))) for name in self.files}
        self.binary, self.identity = None, None

    def all_tests(self, files=None):
        """Returns the tests that some files, or all, define, each once, in order."""
        chosen = self.files if files is None else [name for name in self.files if name in files]
        return list(dict.fromkeys(test for name in chosen for test in self.tests[name]))


def write_file(path, content):
    with open(path, "wb") as target:
        target.write(content)


def read_text(path):
    try:
        with open(path, "rb") as handle:
            return handle.read().decode("utf-8", "replace")
    except OSError:
        return ""


def go(arguments, directory):
    """Runs the go command and returns its exit status, standard output and standard error."""
    environment = dict(os.environ, PWD=directory)
    done = subprocess.run(
        ["go"] + arguments, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def test_directories(root):
    """Returns the directories below one that hold test files and belong to the build, sorted."""
    found = []
    for directory, below, names in os.walk(root):
        below[:] = sorted(
            name for name in below if not name.startswith((".", "_")) and name not in IGNORED_DIRECTORIES
        )
        if any(name.endswith("_test.go") for name in names):
            found.append(directory)
    return found


def module_directory(directory, root):
    """Returns the nearest directory at or above one that has a `go.mod`; the root where there is none."""
    while directory.startswith(root + "/") and not os.path.isfile(os.path.join(directory, "go.mod")):
        directory = os.path.dirname(directory)
    return directory


def read_documents(text):
    """Returns the JSON documents that follow one another in a text."""
    decoder, documents, at = json.JSONDecoder(), [], 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return documents
        document, at = decoder.raw_decode(text, at)
        documents.append(document)


class Suite(object):
    """The tests of a tree: finds, compiles and runs them."""

    def __init__(self, plan, recorder, scratch):
        self.root = os.path.realpath(plan["root"])
        self.selection, self.loose = plan["selection"], plan["loose"]
        self.seed, self.limit_s = plan["order_seed"], plan["test_wall_s"]
        self.recorder, self.scratch = recorder, scratch
        self.ids = set()
        version = go(["env", "GOVERSION"], self.root)[1].strip()
        numbers = re.match(r"go(\d+)\.(\d+)", version)
        # From this version on, framing lines carry a mark.
        self.marked = numbers is not None and (int(numbers.group(1)), int(numbers.group(2))) >= (1, 20)

    # Which tests

    def chosen_files(self):
        """Returns for each directory the names of the test files to take, or `None` for all."""
        if self.selection["kind"] == "files":
            items = self.selection["items"]
        elif self.selection["kind"] == "tests" and self.loose:
            items = [item for item in self.selection["items"] if "::" not in item and self.exists(item)]
            if len(items) < len(self.selection["items"]):
                return {directory: None for directory in test_directories(self.root)}
        else:
            return {directory: None for directory in test_directories(self.root)}
        chosen = {}
        for item in items:
            path = os.path.normpath(os.path.join(self.root, item))
            if os.path.isdir(path):
                chosen.update({directory: None for directory in test_directories(path)})
            elif path.endswith("_test.go") and os.path.isfile(path):
                names = chosen.setdefault(os.path.dirname(path), set())
                if names is not None:
                    names.add(os.path.basename(path))
        return chosen

    def exists(self, item):
        return os.path.exists(os.path.join(self.root, item))

    def jobs(self):
        """Returns `(package, top-level test, subtest or None)` for all that is to run, having recorded what cannot."""
        chosen = self.chosen_files()
        by_module = {}
        for directory in sorted(chosen):
            by_module.setdefault(module_directory(directory, self.root), []).append(directory)
        jobs = []
        for place, directories in sorted(by_module.items()):
            for package in self.packages(Module(place, self.scratch), directories):
                tests = self.wanted(package, package.all_tests(chosen[package.directory]))
                # A file whose tests cannot be told may be one that does not compile.
                is_needed = tests or self.selection["kind"] != "tests"
                if is_needed and self.compile(package, chosen[package.directory]):
                    jobs.extend((package, test, subtest) for test, subtest in tests)
        if self.seed is not None:
            jobs = channel.shuffled(jobs, lambda job: [job[0].path], self.seed)
        return jobs

    def packages(self, module, directories):
        patterns = ["./" + os.path.relpath(directory, module.directory) for directory in directories]
        status, output, errors = go(["list", "-e", "-find", "-json"] + module.flags + patterns, module.directory)
        if status != 0:
            for directory in directories:
                names = sorted(name for name in os.listdir(directory) if name.endswith("_test.go"))
                self.record_errors(directory, names, errors, module.directory)
            return []
        packages = []
        for listed in read_documents(output):
            directory = os.path.realpath(listed.get("Dir") or "")
            if directory in directories:
                packages.append(Package(module, directory, listed))
        return packages

    def wanted(self, package, tests):
        if self.selection["kind"] != "tests":
            return [(test, None) for test in tests]
        wanted = {}
        for item in self.selection["items"]:
            path, separator, name = item.partition("::")
            if not separator and self.loose:
                path, name = package.path, item
                if self.exists(item):
                    inside = os.path.normpath(os.path.join(self.root, item))
                    below = (package.directory + "/").startswith(inside + "/")
                    for test in package.all_tests(None if below else {os.path.basename(inside)}):
                        wanted.setdefault(test, set()).add(None)
                    continue
            if path == package.path:
                top, _, subtest = name.partition("/")
                wanted.setdefault(top, set()).add(subtest or None)
        # Several subtests of one test run in one process of the whole test.
        return [(test, next(iter(wanted[test])) if len(wanted[test]) == 1 else None) for test in tests if test in wanted]

    def is_reported(self, test_id):
        if self.selection["kind"] != "tests":
            return True
        items = self.selection["items"]
        if self.loose:
            return any(
                test_id == item or test_id.startswith(item + "/") or "::" not in item for item in items
            )
        return test_id in items

    # Compiling

    def compile(self, package, files):
        binary = os.path.join(tempfile.mkdtemp(dir=self.scratch), os.path.basename(package.path) + ".test")
        arguments = ["test", "-c", "-vet=off", "-gcflags=-e", "-ldflags=-s -w", "-o", binary]
        status, output, errors = go(arguments + package.module.flags + ["."], package.directory)
        if status == 0 and os.path.isfile(binary):
            package.binary, package.identity = binary, identity(binary)
            return True
        names = [name for name in package.files if files is None or name in files]
        self.record_errors(package.directory, names, output + errors, package.directory)
        return False

    def record_errors(self, directory, names, text, base):
        """Records for each test file why it cannot be compiled: its own errors, else all of its package's."""
        spans = self.spans(text, base)
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), self.root)
            own = [span for span in spans if span[0] == path]
            message = "\n".join("%s:%d:%d: %s" % span for span in own or spans) or text.strip()
            self.recorder.write(
                "collection_error",
                file=channel.text(path),
                exception="CompileError" if spans else "BuildError",
                message=channel.shortened(message),
                frames=[{"path": channel.text(span[0]), "line": span[1], "function": ""} for span in own or spans],
            )

    def spans(self, text, base):
        """Returns `(path, line, column, message)` of the compiler's lines that speak of files in the tree."""
        spans = []
        for line in text.splitlines():
            match = COMPILER_LINE.match(line)
            if match is None:
                if line.startswith("\t") and spans:
                    spans[-1] = spans[-1][:3] + (spans[-1][3] + "\n" + line,)
                continue
            path = os.path.normpath(os.path.join(base, match.group(1)))
            if path.startswith(self.root + "/") and os.path.isfile(path):
                path = os.path.relpath(path, self.root)
                spans.append((path, int(match.group(2)), int(match.group(3) or 0), match.group(4)))
        return spans[:MAX_SPANS]

    # Running

    def run_test(self, package, test, subtest):
        name = "%s/%s" % (test, subtest) if subtest else test
        if subtest is None:
            self.start(package, name)
        process = Process(self, package, name)
        if subtest is not None:
            if process.clean and not process.knows(name):
                # There is no such subtest.
                return
            self.start(package, name)
        verdict = process.verdict(name) if process.knows(name) else process.verdict_without(name)
        self.finish(package, name, verdict, process.ms)
        for below in process.subtests(name):
            self.start(package, below)
            ms = 0
            verdict = process.verdict(below)
            if verdict is None:
                alone = Process(self, package, below)
                ms = alone.ms
                verdict = alone.verdict(below) if alone.knows(below) else alone.verdict_without(below)
                verdict = verdict or ("failed", None, "passes, but the test around it fails", [])
            self.finish(package, below, verdict, ms)

    def start(self, package, name):
        test_id = "%s::%s" % (package.path, name)
        if self.is_reported(test_id):
            if test_id not in self.ids:
                self.ids.add(test_id)
                self.recorder.write_collected([test_id])
            self.recorder.write("test_start", id=channel.text(test_id))

    def finish(self, package, name, verdict, ms):
        test_id = channel.text("%s::%s" % (package.path, name))
        if not self.is_reported(test_id):
            return
        outcome, exception, message, frames = verdict
        fields = {"exception": exception, "message": channel.shortened(message), "frames": frames}
        self.recorder.write("result", id=test_id, when="call", outcome=outcome, **fields)
        self.recorder.write("test_end", id=test_id, ms=ms)


class Process(object):
    """One run of a test binary for one test, and what can be said of the tests in it."""

    def __init__(self, suite, package, name):
        self.suite, self.package, self.name = suite, package, name
        self.events, self.lines, self.order = {}, {}, []
        self.current, self.top = name, name.partition("/")[0]
        self.errors = b""
        self.timed_out = False
        self.log = os.path.join(tempfile.mkdtemp(dir=suite.scratch), "log")
        began = time.monotonic()
        self.status = self.execute() if identity(package.binary) == package.identity else None
        self.ms = int((time.monotonic() - began) * 1000)
        self.complete = os.path.isfile(self.log) and os.path.getsize(self.log) > 0
        self.clean = self.status == 0 and self.complete and not self.timed_out

    def execute(self):
        pattern = "/".join("^%s$" % quoted(part) for part in self.name.split("/"))
        argv = [
            self.package.binary,
            "-test.run=" + pattern,
            "-test.v=test2json" if self.suite.marked else "-test.v=true",
            "-test.paniconexit0",
            "-test.timeout=0",
            "-test.testlogfile=" + self.log,
        ]
        child = subprocess.Popen(
            argv,
            cwd=self.package.directory,
            env=dict(os.environ, PWD=self.package.directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.follow(child)
        finally:
            end_group(child)
        return child.returncode

    def follow(self, child):
        """Reads both streams until the process has ended or its time is up."""
        deadline, asked = time.monotonic() + self.suite.limit_s, False
        pending, ended = b"", None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            selector.register(child.stderr, selectors.EVENT_READ)
            while True:
                ready = selector.select(TICK_S) if selector.get_map() else []
                for key, _ in ready:
                    data = os.read(key.fileobj.fileno(), 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is child.stderr:
                        self.errors = (self.errors + data)[:MAX_ERRORS_BYTES]
                    else:
                        pending = self.take(pending + data)
                if not ready and not selector.get_map():
                    try:
                        child.wait(max(0.0, deadline - time.monotonic()))
                    except subprocess.TimeoutExpired:
                        pass
                if child.poll() is not None:
                    # Descendants may hold the streams, and may go on writing.
                    ended = ended or time.monotonic()
                    if not ready or time.monotonic() > ended + DRAIN_S:
                        break
                    continue
                if time.monotonic() > deadline:
                    self.timed_out = True
                    if asked:
                        break
                    os.kill(child.pid, signal.SIGQUIT)
                    deadline, asked = time.monotonic() + QUIT_GRACE_S, True
        self.take(pending + b"\n")

    def take(self, data):
        """Reads the whole lines of the output and returns the rest."""
        lines = data.split(b"\n")
        for line in lines[:-1]:
            self.take_line(line.rstrip(b"\r").decode("utf-8", "replace"))
        rest = lines[-1]
        return rest if len(rest) <= MAX_LINE_BYTES else rest[-MAX_LINE_BYTES:]

    def take_line(self, line):
        framed = line
        if self.suite.marked:
            # Text that a test printed without ending its line stands before the mark.
            before, mark, framed = line.rpartition("\x16")
            if not mark:
                return self.keep(line)
            if before.strip():
                self.keep(before)
        match = STATE.search(framed)
        if match is not None and (match.group(2) + "/").startswith(self.top + "/"):
            return self.take_event(framed, match)
        match = VERDICT.search(framed)
        if match is not None and (match.group(2) in self.events or match.group(2) == self.name):
            return self.take_event(framed, match)
        return self.keep(line)

    def take_event(self, line, match):
        if line[: match.start()].strip():
            self.keep(line[: match.start()])
        self.note(match.group(2), match.group(1))
        self.current = match.group(2)

    def note(self, name, event):
        if name not in self.events:
            self.events[name] = set()
            self.order.append(name)
        self.events[name].add(event)

    def keep(self, line):
        lines = self.lines.setdefault(self.current, [])
        if line not in ("PASS", "FAIL") and sum(len(kept) for kept in lines) < MAX_LINES_BYTES:
            lines.append(line)

    # What came of it

    def knows(self, name):
        return "RUN" in self.events.get(name, ())

    def subtests(self, name):
        return [below for below in self.order if below.startswith(name + "/") and self.knows(below)]

    def verdict(self, name):
        """Returns outcome, exception, message and frames; `None` where only a run alone can tell."""
        events = self.events[name]
        if name == self.name:
            return self.verdict_of_all(events)
        if "FAIL" in events:
            return self.failure(name)
        if "SKIP" in events:
            return ("skipped", None, self.text_of(name), [])
        if "PASS" in events:
            return ("passed", None, "", []) if self.clean else None
        if self.timed_out and ("PAUSE" not in events or "CONT" in events):
            return self.late()
        return None

    def late(self):
        return ("timed_out", "Timeout", "ran longer than %g s" % self.suite.limit_s, self.death()[2])

    def verdict_of_all(self, events):
        if self.timed_out:
            return self.late()
        if self.clean and "FAIL" not in events:
            if "SKIP" in events:
                return ("skipped", None, self.text_of(self.name), [])
            if "PASS" in events:
                return ("passed", None, "", [])
        exception, message, frames = self.death()
        if exception == "panic" or (self.complete and "FAIL" in events):
            return self.failure(self.name)
        return ("crashed", exception, message, frames)

    def verdict_without(self, name):
        """Returns the verdict on a test that the process never started."""
        if self.clean:
            return ("skipped", None, "the test binary does not run it", [])
        if self.timed_out:
            return self.late()
        if self.status == 0:
            return ("skipped", None, "TestMain ended before the tests", [])
        return ("crashed",) + self.death()

    def failure(self, name):
        """Returns the verdict of a failed test, with the panic that ended the process if it came from there."""
        own = self.text_of(name)
        exception, message, frames = self.death()
        failed_below = any(
            other.startswith(name + "/") and "FAIL" in events for other, events in self.events.items()
        )
        if exception == "panic" and not (failed_below and name != self.name):
            return ("failed", exception, message + ("\n" + own if own else ""), frames)
        if not own and failed_below:
            below = [other for other, events in self.events.items() if "FAIL" in events and other != name]
            own = "failed subtests: " + ", ".join(other for other in below if other.startswith(name + "/"))
        return ("failed", None, own or ("" if self.complete else message), self.log_frames(name))

    def text_of(self, name):
        lines = [LOG_POSITION.sub("", line) for line in self.lines.get(name, ())]
        return textwrap.dedent("\n".join(lines)).strip("\n")

    def log_frames(self, name):
        """Returns the places in the package that the test's log lines name."""
        found = []
        for line in self.lines.get(name, ()):
            match = LOG_POSITION.match(line)
            path = os.path.join(self.package.directory, match.group(1)) if match else ""
            if match and os.path.isfile(path):
                function = name.partition("/")[0]
                frame = {"path": self.relative(path), "line": int(match.group(2)), "function": channel.text(function)}
                if frame not in found:
                    found.append(frame)
        return found[: channel.FRAMES_TAIL]

    def relative(self, path):
        return channel.text(os.path.relpath(path, self.suite.root))

    def death(self):
        """Returns how the process ended: exception, message and frames of the first goroutine, innermost last."""
        text = self.errors.decode("utf-8", "replace")
        lines = text.splitlines()
        start = next((at for at, line in enumerate(lines) if line.startswith(("panic: ", "fatal error: "))), None)
        if start is not None and self.status == 2:
            end = next((at for at in range(start, len(lines)) if lines[at].startswith("goroutine ")), len(lines))
            kind = "panic" if lines[start].startswith("panic: ") else "fatal error"
            message = "\n".join(lines[start:end]).strip()
            return kind, message, self.stack_frames(lines[end:])
        if self.timed_out:
            start = next((at for at, line in enumerate(lines) if line.startswith("goroutine ")), len(lines))
            return None, "", self.stack_frames(lines[start:])
        if self.status is None:
            return None, "the test binary was changed after it was built", []
        ending = "signal %d" % -self.status if self.status < 0 else "exit status %d" % self.status
        return None, "the process ended with %s\n%s" % (ending, text[-2000:]), []

    def stack_frames(self, lines):
        """Returns the frames inside the tree of the first goroutine that has any, innermost last."""
        frames = []
        for function, position in zip(lines, lines[1:]):
            if not function and frames:
                break
            match = STACK_POSITION.match(position)
            if match is None or not match.group(1).startswith(self.suite.root + "/"):
                continue
            name = STACK_FUNCTION.match(function)
            name = name.group(1).rpartition("/")[2] if name else ""
            frame = {"path": self.relative(match.group(1)), "line": int(match.group(2)), "function": channel.text(name)}
            frames.append(frame)
        return frames[: channel.FRAMES_TAIL][::-1]


def quoted(text):
    """Returns a regular expression of Go's that matches a text."""
    return "".join(("\\" + char) if char < "\x7f" and not char.isalnum() and char != "_" else char for char in text)


def identity(path):
    """Returns what changes whenever somebody writes to a file or puts another in its place."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# Processes


def end_group(child):
    """Kills a test process and all that descends from it, wherever that went."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        # It has ended, and nobody else is in its group.
        pass
    child.wait()
    child.stdout.close()
    child.stderr.close()
    for _ in range(100):
        orphans = children(os.getpid())
        if not orphans:
            return
        for orphan in orphans:
            try:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
            except OSError:
                # It has ended by itself, or was another process's to wait for.
                pass


def children(parent):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as handle:
                    fields = handle.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def seclude():
    """Makes this process untraceable, so that nobody reads the nonce, and the heir of orphaned descendants."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError) as error:
        sys.stderr.write("curate: keep test processes away from the driver: %s\n" % channel.describe(error))


def main():
    try:
        plan = channel.read_plan(sys.argv[1])
        recorder = channel.Recorder(str(plan["results"]), str(plan.pop("nonce")))
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write("curate: reach the results channel: %s\n" % channel.describe(error))
        sys.stderr.flush()
        os._exit(channel.CHANNEL_BROKEN)
    seclude()
    recorder.write("start", pid=os.getpid())
    # Beside the build cache, which has room for many binaries.
    scratch = tempfile.mkdtemp(prefix="curate-", dir=os.environ.get("GOCACHE"))
    suite = Suite(plan, recorder, scratch)
    jobs = suite.jobs()
    # Which subtests there are shows when they run.
    known = ["%s::%s" % (package.path, test) for package, test, subtest in jobs if subtest is None]
    known = [test_id for test_id in dict.fromkeys(known) if suite.is_reported(test_id)]
    suite.ids.update(known)
    recorder.write_collected(known)
    for package, test, subtest in jobs:
        suite.run_test(package, test, subtest)
    shutil.rmtree(scratch, ignore_errors=True)
    recorder.write("finish", n_collected=len(suite.ids), exitstatus=0)


if __name__ == "__main__":
    main()
