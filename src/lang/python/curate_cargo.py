"""Builds and runs a Cargo workspace's tests for curate and reports over the result channel. Python 3.9 and later.

Nothing of the repository runs in this process, and no other process may read its memory, so the nonce stays here.

Test targets are compiled by `cargo build --keep-going --profile test`, whose JSON messages name the test programs and
the compiler's errors. Then every test gets a process of its own, `<program> --exact <name>`, as nextest does: a crash or
an endless loop costs one test. A test has passed if its process exits with 0 *and* libtest has noted `ok <name>` in a
log file that only this one run knows; both work on a stable toolchain. What tests print decides nothing, nor does code
that ends its process early with status 0. A test program that another test writes to is noticed by its change time and
not believed any more, nor is a build that writes to test files. Targets with `harness = false` are one test, by their exit status.

Doctests are run by rustdoc, a process each, and reported through the same kind of log file. From edition 2024 on rustdoc
runs them inside one program and the log would be that program's: they are left out there.

Ids are `package$path::test` for a library, `package::target$…` for an integration test, `package::bin/target$…` and
`package::example/target$…` for programs, `package::doc$file::item::number` for doctests: not by line, which any edit moves.
"""

import collections
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import curate_channel as channel

SETTINGS = "/opt/env/settings.json"
LOCK = "/opt/env/Cargo.lock"
PR_SET_DUMPABLE = 4
# Kept of what a test prints to standard error, from its start and its end.
KEPT_BYTES = 64 * 1024
MAX_FRAMES = 50
# Failing tests that are run once more for the frames of their panics.
MAX_TRACED = 20
DOCTEST_S = 10.0
# A package with more is left out of whole suites: each is compiled and linked on its own, half a second and more.
MAX_DOCTESTS = 60
HARNESS = "main"
PANIC = re.compile(r"^thread '.*?' (?:\(\d+\) )?panicked at (?:'(?P<old>.*)', )?(?P<path>[^\n]+?):(?P<line>\d+)(?::\d+)?:?$", re.M)
TRACE = re.compile(r"^ *\d+: (?P<function>.+)\n +at (?P<path>[^\n]+?):(?P<line>\d+)(?::\d+)?$", re.M)
TRACE_STARTS = re.compile(r"^(?:stack backtrace:|note: run with `RUST_BACKTRACE)", re.M)
DOCTEST = re.compile(r"^(?P<file>.+?) - (?P<item>.*?)\s*\(line (?P<line>\d+)\)")
SECTION = re.compile(r"^\s*\[\[(\w+)\]\]\s*(?:#.*)?$|^\s*\[")


class Target(object):
    """One thing that Cargo compiles for tests."""

    def __init__(self, package, fields, has_harness):
        self.package = package
        self.name = fields["name"]
        self.path = fields["src_path"]
        kinds = fields["kind"]
        self.kind = next((kind for kind in ("test", "bin", "example", "bench") if kind in kinds), "lib")
        self.is_tested = fields.get("test", True) and "custom-build" not in kinds and self.kind != "bench"
        self.has_doctests = self.kind == "lib" and fields.get("doctest", False) and fields.get("edition") < "2024"
        self.required = fields.get("required-features", [])
        self.has_harness = has_harness
        prefix = {"lib": "", "test": "::" + self.name}.get(self.kind, "::%s/%s" % (self.kind, self.name))
        self.binary_id = package.name + prefix
        self.program = None
        self.stamp = None
        self.errors = []


class Package(object):
    def __init__(self, fields):
        self.id = fields["id"]
        self.name = fields["name"]
        self.fields = fields
        self.directory = os.path.dirname(fields["manifest_path"])
        without = without_harness(fields["manifest_path"])
        targets = fields["targets"]
        self.targets = [Target(self, each, (each["kind"][0], each["name"]) not in without) for each in targets]
        self.doc_id = self.name + "::doc"

    def tested(self, kinds=("lib", "bin", "test", "example")):
        return [target for target in self.targets if target.is_tested and target.kind in kinds]


class Test(object):
    def __init__(self, target, name, is_ignored):
        self.target, self.name, self.is_ignored = target, name, is_ignored
        self.id = channel.text("%s$%s" % (target.binary_id, name))


class Doctest(object):
    def __init__(self, package, name, place, is_ignored):
        self.package, self.name, self.is_ignored = package, name, is_ignored
        self.item = DOCTEST.match(name).group("item")
        self.id = channel.text("%s$%s" % (package.doc_id, place))


def without_harness(manifest):
    """Returns (kind, name) of the targets with `harness = false`, which `cargo metadata` does not tell."""
    found = set()
    kind = name = None
    try:
        with open(manifest, encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return found
    is_bare = False
    for line in lines + ["["]:
        section = SECTION.match(line)
        if section:
            if kind and name and is_bare:
                found.add((kind, name))
            kind, name, is_bare = section.group(1), None, False
        elif re.match(r"\s*name\s*=", line):
            name = line.split("=", 1)[1].split("#")[0].strip().strip("\"'")
        elif re.match(r"\s*harness\s*=\s*false\b", line):
            is_bare = True
    return found


class Workspace(object):
    """The Cargo workspace in the tree, and how to call Cargo in it."""

    def __init__(self, root):
        try:
            with open(SETTINGS) as handle:
                self.settings = json.load(handle)
        except FileNotFoundError:
            self.settings = {}
        self.root = root
        self.directory = os.path.normpath(os.path.join(root, self.settings.get("directory", "")))
        self.cargo = shutil.which("cargo") or "cargo"
        self.sysroot = os.path.dirname(os.path.dirname(os.path.realpath(self.cargo)))
        self.packages = []
        self.target_directory = ""
        # Of each package: what its build script has set, and its programs by name.
        self.variables = collections.defaultdict(dict)
        self.libraries = []
        self.failures = []

    def call(self, arguments):
        """Returns Cargo's exit code, standard output and standard error."""
        done = subprocess.run(
            [self.cargo] + arguments, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        errors = done.stderr.decode("utf-8", "replace")
        sys.stderr.write(errors[-4000:])
        return done.returncode, done.stdout.decode("utf-8", "replace"), errors

    def read(self):
        """Reads packages and targets; returns what went wrong, if anything."""
        code, out, errors = self.call(["metadata", "--offline", "--no-deps", "--format-version=1"])
        if code != 0:
            return errors
        metadata = json.loads(out)
        members = set(metadata["workspace_members"])
        self.packages = [Package(fields) for fields in metadata["packages"] if fields["id"] in members]
        self.target_directory = metadata["target_directory"]
        return None

    def relative(self, path, directory=None):
        """Returns a path relative to the tree, or `None` where it lies outside."""
        full = os.path.normpath(os.path.join(directory or self.directory, path))
        inside = os.path.relpath(full, self.root)
        return None if inside.startswith("..") else channel.text(inside)

    def features(self, packages, targets):
        """Returns Cargo's options: the environment's features, and those that the targets require."""
        if self.settings.get("all_features"):
            return ["--all-features"]
        wanted = set(self.settings.get("features", []))
        wanted.update("%s/%s" % (target.package.name, feature) for target in targets for feature in target.required)
        known = {"%s/%s" % (each.name, feature) for each in packages for feature in each.fields.get("features", {})}
        chosen = sorted(wanted & known)
        return ["--features", ",".join(chosen)] if chosen else []

    def choose(self, packages):
        """Returns Cargo's options that select packages."""
        if len(self.packages) == 1:
            return []
        if len(packages) == len(self.packages):
            return ["--workspace"]
        return [word for package in packages for word in ("-p", package.id)]

    def build(self, targets):
        """Compiles the targets' test programs and notes programs and errors in them."""
        packages = [package for package in self.packages if any(target.package is package for target in targets)]
        if not packages:
            return
        stamps = {path: stamp_of(path) for path in test_sources(targets)}
        everything = [target for package in packages for target in package.tested()]
        common = self.choose(packages) + self.features(packages, targets)
        common += ["--profile", "test", "--offline", "--message-format=json"]
        if set(everything) == set(targets):
            self.compile(["build", "--keep-going", "--tests"] + common)
        else:
            named = [(target.kind, target.name) for target in targets if target.kind in ("test", "example")]
            if named:
                filters = [word for kind, name in sorted(set(named)) for word in ("--" + kind, name)]
                self.compile(["build", "--keep-going"] + common + filters)
            own = {target.kind for target in targets} & {"lib", "bin"}
            if own:
                # `cargo build --lib` would compile the library without its tests.
                options = [option for kind, option in (("lib", "--lib"), ("bin", "--bins")) if kind in own]
                self.compile(["test", "--no-run"] + common + options)
        changed = sorted(path for path, stamp in stamps.items() if stamp_of(path) != stamp)
        for target in targets:
            if changed:
                # A build script at work: what was compiled is not what was given to us.
                target.program, target.errors = None, []
                self.failures.append("the build changed `%s`" % self.relative(changed[0]))
            elif target.program is not None:
                target.stamp = stamp_of(target.program)

    def compile(self, arguments):
        code, out, errors = self.call(arguments)
        for line in out.splitlines():
            try:
                message = json.loads(line)
                self.take(message)
            except (ValueError, KeyError, TypeError, AttributeError):
                # Programs that the compiler runs may print too.
                continue
        if code != 0:
            self.failures.append(errors)

    def take(self, message):
        reason = message.get("reason")
        package = next((each for each in self.packages if each.id == message.get("package_id")), None)
        if reason == "build-script-executed":
            self.libraries.extend(path.split("=", 1)[-1] for path in message["linked_paths"])
            if package is not None:
                self.variables[package.id].update(dict(message["env"]), OUT_DIR=message["out_dir"])
        if package is None or "target" not in message:
            return
        for target in package.targets:
            if (target.name, target.path) != (message["target"]["name"], message["target"]["src_path"]):
                continue
            if reason == "compiler-artifact" and message.get("executable"):
                if message["profile"]["test"]:
                    target.program = message["executable"]
                elif target.kind == "bin":
                    self.variables[package.id]["CARGO_BIN_EXE_" + target.name] = message["executable"]
            elif reason == "compiler-message" and message["message"]["level"].startswith("error"):
                target.errors.append(message["message"])

    def environment(self, target):
        """Returns the variables that Cargo sets for a test program."""
        package = target.package
        fields = package.fields
        variables = dict(os.environ)
        version, _, pre = fields["version"].split("+")[0].partition("-")
        numbers = (version.split(".") + ["", "", ""])[:3]
        places = [os.path.dirname(target.program), os.path.dirname(os.path.dirname(target.program))]
        places = self.libraries + places + [os.path.join(self.sysroot, "lib")]
        variables.update(
            CARGO=self.cargo,
            CARGO_MANIFEST_DIR=package.directory,
            CARGO_MANIFEST_PATH=fields["manifest_path"],
            CARGO_PKG_NAME=fields["name"],
            CARGO_PKG_VERSION=fields["version"],
            CARGO_PKG_VERSION_MAJOR=numbers[0],
            CARGO_PKG_VERSION_MINOR=numbers[1],
            CARGO_PKG_VERSION_PATCH=numbers[2],
            CARGO_PKG_VERSION_PRE=pre,
            CARGO_PKG_AUTHORS=":".join(fields.get("authors") or []),
            CARGO_PKG_DESCRIPTION=fields.get("description") or "",
            CARGO_PKG_HOMEPAGE=fields.get("homepage") or "",
            CARGO_PKG_REPOSITORY=fields.get("repository") or "",
            CARGO_PKG_LICENSE=fields.get("license") or "",
            LD_LIBRARY_PATH=":".join(places),
        )
        variables.update({key: str(value) for key, value in self.variables[package.id].items()})
        return variables


def stamp_of(program):
    """Returns what changes when somebody writes to a program: its change time cannot be set."""
    try:
        status = os.stat(program)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def test_sources(targets):
    """Returns the files that the targets' tests are in, as far as the layout of packages tells."""
    found = {target.path for target in targets}
    for directory in {os.path.join(target.package.directory, "tests") for target in targets}:
        for place, _, names in os.walk(directory):
            found.update(os.path.join(place, name) for name in names)
    return found


def contains_word(path, words):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            found = set(re.findall(r"\w+", handle.read()))
    except OSError:
        return False
    return any(word in found for word in words)


def targets_of(workspace, item):
    """Returns the targets that a file of the tree belongs to."""
    path = os.path.join(workspace.root, item)
    if not os.path.exists(path):
        return []
    holders = [package for package in workspace.packages if (path + "/").startswith(package.directory + "/")]
    if not holders:
        return []
    package = max(holders, key=lambda each: len(each.directory))
    exact = [target for target in package.tested() if target.path == path]
    if exact:
        return exact
    owners = [
        target
        for target in package.tested()
        if os.path.basename(target.path) == "main.rs"
        and os.path.dirname(target.path) != os.path.join(package.directory, "src")
        and path.startswith(os.path.dirname(target.path) + "/")
    ]
    if owners:
        return owners
    top = os.path.relpath(path, package.directory).split(os.sep)[0]
    if top == "src" and path.endswith(".rs"):
        return package.tested(("lib", "bin"))
    tests = package.tested(("test",)) or package.tested()
    # A helper or a data file: the targets that name it, else all.
    parts = os.path.relpath(path, package.directory).split(os.sep)[1:]
    words = [re.sub(r"\W", "_", os.path.splitext(part)[0]) for part in parts]
    return [target for target in tests if contains_word(target.path, words)] or tests


def select(workspace, selection, loose):
    """Returns the targets to compile, the packages with doctests to run, and a test of what is chosen."""
    items = selection["items"]
    every = [target for package in workspace.packages for target in package.tested()]
    documented = [package for package in workspace.packages if any(target.has_doctests for target in package.targets)]
    if selection["kind"] == "all":
        return every, documented, lambda test: True
    if selection["kind"] == "files":
        targets = []
        for item in items:
            targets.extend(target for target in targets_of(workspace, item) if target not in targets)
        sources = {os.path.join(workspace.root, item) for item in items}

        def is_chosen(test):
            return not isinstance(test, Doctest) or documented_file(workspace, test) in sources

        packages = [each for each in documented if any(path.startswith(each.directory + "/src/") for path in sources)]
        return targets, packages, is_chosen
    wanted = set(items)
    heads = {item.split("$")[0] for item in items}
    prefixes = tuple(item + mark for item in items for mark in ("::", "$")) if loose else ()

    def is_head(name):
        return name in heads or (loose and (name + "$").startswith(prefixes))

    targets = [target for target in every if is_head(target.binary_id)]
    packages = [package for package in documented if is_head(package.doc_id)]
    return targets, packages, lambda test: test.id in wanted or test.id.startswith(prefixes or "\0")


def documented_file(workspace, test):
    return os.path.join(workspace.directory, DOCTEST.match(test.name).group("file"))


def error_sites(workspace, span):
    """Yields (path, line) of a span inside the tree, and of the macro calls that it came from."""
    while span:
        path = workspace.relative(span["file_name"])
        if path is not None and os.path.isfile(os.path.join(workspace.root, path)):
            yield path, span["line_start"]
        span = (span.get("expansion") or {}).get("span")


def compile_failure(workspace, errors):
    """Returns the record fields of a target's compiler errors."""
    frames, texts, code = [], [], None
    for error in errors:
        name = (error.get("code") or {}).get("code")
        for span in error["spans"]:
            for path, line in error_sites(workspace, span) if span["is_primary"] else ():
                frame = {"path": path, "line": line, "function": name or ""}
                if frame not in frames:
                    frames.append(frame)
        if error["spans"]:
            code = code or name or "CompileError"
            texts.append(error.get("rendered") or error["message"])
    message = "\n".join(dict.fromkeys(texts)) or "\n".join(error["message"] for error in errors)
    return {"exception": code or "CompileError", "message": channel.shortened(message), "frames": frames[:200]}


def report_failures(workspace, targets, recorder):
    """Records, for each target without a program, why there is none."""
    last = workspace.failures[-1] if workspace.failures else "the compiler made no test program"
    for target in targets:
        if target.program is not None:
            continue
        errors = target.errors
        if not errors:
            # The library, or a program that the test starts, stands in the way.
            errors = [error for other in target.package.targets for error in other.errors if other.kind in ("lib", "bin")]
        if not errors:
            errors = [error for each in workspace.packages for other in each.targets for error in other.errors]
        if errors:
            fields = compile_failure(workspace, errors)
        else:
            fields = {"exception": "CargoError", "message": channel.shortened(last[-3000:]), "frames": []}
        recorder.write("collection_error", file=workspace.relative(target.path) or target.name, **fields)


class Lock(object):
    """The environment's `Cargo.lock` in the place of the tree's, while tests run: no other can be satisfied."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "Cargo.lock")
        self.original = None

    def __enter__(self):
        if not os.path.exists(LOCK):
            return
        if os.path.lexists(self.path):
            self.original = self.path + ".curate"
            os.rename(self.path, self.original)
        try:
            shutil.copyfile(LOCK, self.path)
        except OSError:
            # There is no such directory in this state of the tree; Cargo will say so.
            pass

    def __exit__(self, *_error):
        try:
            if self.original is not None:
                os.rename(self.original, self.path)
            elif os.path.exists(LOCK):
                os.unlink(self.path)
        except OSError:
            pass


class Ran(object):
    """How a process ended and the two ends of what it said on standard error."""

    def __init__(self, code, timed_out, text, ms):
        self.code, self.timed_out, self.text, self.ms = code, timed_out, text, ms


def run(argv, directory, variables, limit_s):
    """Runs a program in a process group of its own, which is gone when this returns."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Ran(None, False, str(error), 0)
    kept = [b"", b""]

    def drain():
        while True:
            block = process.stderr.read1(65536)
            if not block:
                return
            room = KEPT_BYTES - len(kept[0])
            kept[0] += block[: max(room, 0)]
            kept[1] = (kept[1] + block[max(room, 0) :])[-KEPT_BYTES:]

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    timed_out = False
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    try:
        # What the test has started and left running must not disturb the next.
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    process.wait()
    reader.join(0.5)
    text = (kept[0] + kept[1]).decode("utf-8", "replace")
    return Ran(process.returncode, timed_out, text, int((time.monotonic() - began) * 1000))


class Examiner(object):
    """Runs single tests and says what came of them."""

    def __init__(self, workspace, recorder, limit_s):
        self.workspace, self.recorder, self.limit_s = workspace, recorder, limit_s
        self.logs = tempfile.mkdtemp()
        self.n_traced = 0
        self.n_logs = 0

    def new_log(self):
        self.n_logs += 1
        return os.path.join(self.logs, "%d-%s" % (self.n_logs, os.urandom(8).hex()))

    def list(self, target):
        """Returns the target's tests; one that does not list them is recorded."""
        if not target.has_harness:
            return [Test(target, HARNESS, False)]
        names = []
        for more in ([], ["--ignored"]):
            try:
                done = subprocess.run(
                    [target.program, "--list", "--format", "terse"] + more,
                    cwd=target.package.directory,
                    env=self.workspace.environment(target),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=max(self.limit_s, 30),
                    check=False,
                )
                code, out, errors = done.returncode, done.stdout, done.stderr
            except (OSError, subprocess.TimeoutExpired) as error:
                code, out, errors = None, b"", str(error).encode()
            if code != 0:
                self.recorder.write(
                    "collection_error",
                    file=self.workspace.relative(target.path) or target.name,
                    exception="ListError",
                    message=channel.shortened("listing its tests ended with %s\n%s" % (code, channel.text(errors))),
                    frames=[],
                )
                return []
            lines = out.decode("utf-8", "replace").splitlines()
            names.append([line[: -len(": test")] for line in lines if line.endswith(": test")])
        ignored = set(names[1])
        return [Test(target, name, name in ignored) for name in dict.fromkeys(names[0])]

    def run(self, test):
        self.recorder.write("test_start", id=test.id)
        if test.is_ignored:
            ran, outcome, fields = Ran(0, False, "", 0), "skipped", {"exception": "Ignored", "message": "#[ignore]"}
        else:
            ran, outcome, fields = self.examine(test)
        self.recorder.write("result", id=test.id, when="call", outcome=outcome, **fields)
        self.recorder.write("test_end", id=test.id, ms=ran.ms)

    def examine(self, test):
        target = test.target
        if target.stamp is None or stamp_of(target.program) != target.stamp:
            message = "the test program was changed while tests ran"
            return Ran(None, False, "", 0), "crashed", {"exception": "ProgramChanged", "message": message}
        ran, noted = self.start(test, {})
        fields = self.describe(ran, target)
        if ran.timed_out:
            return ran, "timed_out", dict(fields, exception="Timeout", message="ran longer than %g s" % self.limit_s)
        if ran.code == 0 and (noted == "ok" or not target.has_harness):
            return ran, "passed", {}
        if ran.code is not None and ran.code < 0:
            return ran, "crashed", dict(fields, exception=signal_name(-ran.code))
        if noted == "failed" or not target.has_harness:
            self.trace(test, ran, fields)
            return ran, "failed", fields
        message = "the process ended with %s before the test did\n%s" % (ran.code, fields["message"])
        return ran, "crashed", dict(fields, exception="EarlyExit", message=channel.shortened(message))

    def start(self, test, more):
        """Returns how the process ended, and libtest's word for the test: `ok`, `failed`, or nothing."""
        target = test.target
        argv, log = [target.program], None
        if target.has_harness:
            log = self.new_log()
            argv += ["--exact", test.name, "--nocapture", "--test-threads=1", "--logfile", log]
        variables = dict(self.workspace.environment(target), **more)
        ran = run(argv, target.package.directory, variables, self.limit_s)
        noted = None
        for word, name in read_log(log):
            noted = word if noted is None and name == test.name else "unclear"
        return ran, noted

    def describe(self, ran, target):
        text = ran.text.replace("warning: `--logfile` is deprecated", "", 1)
        panic = PANIC.search(text)
        if panic is None:
            return {"exception": "Error", "message": channel.shortened(text.strip()[-3900:]), "frames": []}
        if panic.group("old") is not None:
            message = panic.group("old")
        else:
            message = TRACE_STARTS.split(text[panic.end() :], 1)[0].strip("\n")
        path = self.workspace.relative(panic.group("path"))
        frames = [{"path": path, "line": int(panic.group("line")), "function": ""}] if self.is_file(path) else []
        return {"exception": "panic", "message": channel.shortened(message), "frames": frames}

    def is_file(self, path):
        return path is not None and os.path.isfile(os.path.join(self.workspace.root, path))

    def trace(self, test, ran, fields):
        """Runs a failing test once more for the frames of its panic. They are evidence, never a verdict."""
        if self.n_traced == MAX_TRACED or ran.ms > 2000 or not test.target.has_harness:
            return
        self.n_traced += 1
        again, _ = self.start(test, {"RUST_BACKTRACE": "1"})
        found = []
        for match in TRACE.finditer(again.text):
            path = self.workspace.relative(match.group("path"), test.target.package.directory)
            if self.is_file(path):
                function = channel.text(match.group("function"))
                found.append({"path": path, "line": int(match.group("line")), "function": function})
        if found:
            # Innermost last.
            fields["frames"] = found[::-1][-MAX_FRAMES:]

    def list_doctests(self, package):
        """Returns a package's doctests, numbered by item."""
        names = []
        for more in ([], ["--ignored"]):
            code, out, errors = self.doctest_command(package, ["--list", "--format", "terse"] + more, 600)
            if code != 0:
                sys.stderr.write(errors)
                return []
            lines = out.splitlines()
            names.append([line[: -len(": test")] for line in lines if line.endswith(": test")])
        ignored = set(names[1])
        found = [(match.group("file"), int(match.group("line")), match.group("item"), name)
                 for name in names[0] for match in [DOCTEST.match(name)] if match]
        counts, tests = collections.Counter(), []
        for path, _, item, name in sorted(found):
            counts[path, item] += 1
            place = "::".join(part for part in (path, item, str(counts[path, item])) if part)
            tests.append(Doctest(package, name, place, name in ignored))
        return tests

    def doctest_command(self, package, arguments, limit_s):
        workspace = self.workspace
        options = workspace.choose([package]) + workspace.features([package], [])
        argv = [workspace.cargo, "test", "--doc", "--offline"] + options + ["--"] + arguments
        process = subprocess.Popen(
            argv,
            cwd=workspace.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, errors = process.communicate()
        return process.returncode, out.decode("utf-8", "replace"), errors.decode("utf-8", "replace")

    def run_doctests(self, package, tests, n_all):
        """Runs a package's doctests. rustdoc splits names at blanks: a filter is one word, and others may run too."""
        if not tests:
            return
        log = self.new_log()
        words = sorted({test.item or documented_file(self.workspace, test) for test in tests})
        filters = [] if len(tests) == n_all else [os.path.basename(word) for word in words if " " not in word]
        limit_s = self.limit_s + DOCTEST_S * n_all
        _, out, _ = self.doctest_command(package, ["--logfile", log] + filters, limit_s)
        noted = collections.defaultdict(list)
        for word, name in read_log(log):
            noted[name].append(word)
        for test in tests:
            self.recorder.write("test_start", id=test.id)
            words = noted[test.name]
            if test.is_ignored:
                outcome, fields = "skipped", {"exception": "Ignored", "message": "ignore"}
            elif words == ["ok"]:
                outcome, fields = "passed", {}
            elif words:
                outcome, fields = "failed", {"exception": "doctest", "message": doctest_message(out, test.name)}
            else:
                outcome, fields = "timed_out", {"exception": "Timeout", "message": "the doctests ran too long"}
            self.recorder.write("result", id=test.id, when="call", outcome=outcome, **fields)
            self.recorder.write("test_end", id=test.id, ms=0)


def doctest_message(out, name):
    _, _, rest = out.partition("---- %s stdout ----\n" % name)
    return channel.shortened(re.split(r"^(?:---- .* stdout ----|failures:)$", rest, 1, re.M)[0].strip())


def read_log(path):
    """Yields the pairs of word and test name that libtest has noted."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    except (OSError, TypeError):
        return
    for line in lines:
        word, _, name = line.partition(" ")
        yield word, name


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def work(plan, recorder):
    workspace = Workspace(plan["root"])
    recorder.write("start", pid=os.getpid())
    with Lock(workspace.directory):
        work_in(workspace, plan, recorder)


def work_in(workspace, plan, recorder):
    trouble = workspace.read()
    if trouble is not None:
        manifest = workspace.relative("Cargo.toml")
        recorder.write(
            "collection_error", file=manifest, exception="CargoError", message=channel.shortened(trouble), frames=[]
        )
        recorder.write("finish", n_collected=0, exitstatus=0)
        return
    targets, packages, is_chosen = select(workspace, plan["selection"], plan["loose"])
    workspace.build(targets)
    report_failures(workspace, targets, recorder)
    examiner = Examiner(workspace, recorder, plan["test_wall_s"])
    tests = []
    for target in targets:
        if target.program is not None:
            tests.extend(test for test in examiner.list(target) if is_chosen(test))
    doctests, n_doctests = {}, {}
    for package in packages:
        listed = examiner.list_doctests(package)
        if plan["selection"]["kind"] == "all" and len(listed) > MAX_DOCTESTS:
            continue
        n_doctests[package] = len(listed)
        doctests[package] = [test for test in listed if is_chosen(test)]
    if plan["order_seed"] is not None:
        tests = channel.shuffled(tests, lambda test: [test.target.binary_id], plan["order_seed"])
    collected = [test.id for test in tests] + [test.id for each in doctests.values() for test in each]
    recorder.write_collected(collected)
    for test in tests:
        examiner.run(test)
    for package, chosen in doctests.items():
        examiner.run_doctests(package, chosen, n_doctests[package])
    recorder.write("finish", n_collected=len(collected), exitstatus=0)


def main():
    # Whoever runs as the same user could read our memory, and the nonce in it, otherwise.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        plan = channel.read_plan(sys.argv[1])
        recorder = channel.Recorder(str(plan.pop("results")), str(plan.pop("nonce")))
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write("curate: reach the results channel: %s\n" % channel.describe(error))
        sys.exit(channel.CHANNEL_BROKEN)
    work(plan, recorder)


if __name__ == "__main__":
    main()
