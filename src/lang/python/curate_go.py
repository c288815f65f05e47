"""Runs Go tests for curate and reports over the result channel.

Each package's tests are compiled (`go test -c`) before any of them runs; then every top-level test gets a process of
its own. Repository code runs in those processes only: the nonce stays here, in a process that cannot be traced.

What holds:

- A test has passed only if a process that was started for it ended with status 0, went through the whole of
  `testing`'s own machinery (the test log, which is written out at its end, is there), and reported the test as run and
  passed and never as failed or skipped. Text that looks like a pass is therefore no pass: a test that prints
  `--- PASS` and fails, dies, or leaves by `os.Exit(0)` or `syscall.Exit(0)` has failed or crashed.
- A subtest's pass counts under the same condition. Where the test around it failed, the subtests that are said to have
  passed, or were not heard of again, run once more, together and then alone, and what those processes say is taken. A
  test that passes as a whole could invent subtests; it cannot hide that one failed, for then its status is not 0.
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
import shutil
import subprocess
import sys
import tempfile

import curate_channel as channel
from curate_go_process import Process, identity, seclude
from curate_go_source import tests_of

MAX_SPANS = 200

# What `go list ./...` leaves out.
IGNORED_DIRECTORIES = ("testdata", "vendor")

COMPILER_LINE = re.compile(r"^((?:[^\s:#]|[^\s:#][^:\n]*[^\s:])\.go):(\d+)(?::(\d+))?: (.+)$")


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
        self.run_subtests(package, name, process)

    def run_subtests(self, package, name, process):
        """Records the subtests of a process, those that it leaves in doubt after another one of their own."""
        doubtful = [below for below in process.subtests(name) if process.verdict(below) is None]
        again = process
        if len(doubtful) > 1:
            depth = name.count("/") + 1
            parts = list(dict.fromkeys(below.split("/")[depth] for below in doubtful))
            again = Process(self, package, name, parts)
        for below in process.subtests(name):
            self.start(package, below)
            verdict, ms = process.verdict(below), 0
            if verdict is None and again.clean and again.knows(below):
                verdict = again.verdict(below)
            if verdict is None:
                alone = Process(self, package, below)
                ms = alone.ms
                verdict = alone.verdict(below) if alone.knows(below) else alone.verdict_without(below)
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
