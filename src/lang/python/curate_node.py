"""Runs the tests of a JavaScript repository for curate and reports over the result channel.

The driver never runs code of the repository itself: each run of a test runner is a child process. A module of ours is
the first that a child loads; it reports what the runner's own events say, over a pipe, each event sealed under a key
that only this child's module and the driver know. Nothing that a test prints is read, so it cannot forge an event; and
the nonce that seals our records is in no child. Code that searches the memory of its own process for the key shares
the process with the runner and cannot be kept out (see the channel's documentation).

mocha, jest and vitest get all files at once, as their users run them; what a crash, a hang or a file that does not load
leaves unreported is run again file by file. ava, tap and `node:test` run each file in a process of its own.
"""

import ctypes
import hashlib
import hmac
import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import curate_channel as channel
from curate_node_package import Package, SCRIPT_ENDINGS, expand, tree_files, uses
from curate_node_tap import TapReader

HERE = "/opt/curate"
# Seconds that a child gets for loading and compiling before its first test, besides the limit of a test.
LOADING_S = 30.0
# Limit for one step of the repository's own that prepares its tests, seconds.
PREPARE_S = 180.0
TAIL_BYTES = 16000
# Tests run one by one to find out which of them hangs, at most.
MAX_SINGLE = 30
# Hangs and crashes in one file after which its other tests still run.
MAX_RESTS = 3
# Options of mocha that take a value, as they stand on a command line.
MOCHA_VALUES = (
    "-r --require --file -u --ui -t --timeout -s --slow -R --reporter --config --opts --extension --ignore --exclude "
    "-g --grep -f --fgrep --loader --import -n --node-option --retries --compilers --reporter-options -O"
).split()
NODE_VALUES = ("-r --require --import --loader --experimental-loader -C --conditions").split()
MOCHA_NODE_OPTIONS = ("loader import experimental-loader conditions experimental-specifier-resolution").split()


STACK_LINE = re.compile(
    r"^\s*(?:at\s+)?(?:async\s+)?(?:(?P<function>[^()\n]*?)\s+\()?(?:file://)?(?P<path>[^\s():]+):(?P<line>\d+)(?::\d+)?\)?\s*$"
)


def frames(stack, root):
    """Returns a stack's entries inside the tree, innermost last."""
    prefix = root.rstrip("/") + "/"
    found = []
    for line in channel.text(stack).splitlines():
        match = STACK_LINE.match(line)
        if not match:
            continue
        path = match.group("path")
        path = path[len(prefix) :] if path.startswith(prefix) else path
        if path.startswith("/") or "node_modules/" in path or not os.path.isfile(prefix + path):
            continue
        function = (match.group("function") or "<anonymous>").strip()
        found.append({"path": path, "line": int(match.group("line")), "function": function})
    found.reverse()
    return found[-channel.FRAMES_TAIL :]


class Report(object):
    """Writes records of the tests that are selected, and keeps what the driver must remember of them."""

    def __init__(self, recorder, plan):
        self._recorder = recorder
        self._root = plan["root"]
        self._selection = plan["selection"]
        self._wanted = set(self._selection["items"])
        self._loose = plan["loose"]
        self.known = {}
        self.running = []
        self.settled = set()
        self.ended = set()
        self.broken_files = set()
        self.signal = None

    def is_chosen(self, test):
        kind = self._selection["kind"]
        if kind == "all":
            return True
        if kind == "files":
            file = test.partition("::")[0]
            return file in self._wanted or any(file.startswith(item.rstrip("/") + "/") for item in self._wanted)
        return test in self._wanted or (
            self._loose and any(test.startswith((item + " > ", item + "::")) for item in self._wanted)
        )

    def collect(self, tests):
        new = [test for test in tests if test not in self.known and self.is_chosen(test)]
        for test in new:
            self.known[test] = len(self.known)
        if new:
            self._recorder.write_collected(new)

    def begin(self, test):
        self.collect([test])
        if test in self.known and test not in self.ended and test not in self.running:
            self.running.append(test)
            self._recorder.write("test_start", id=channel.text(test))

    def result(self, test, outcome, when="call", exception=None, message="", stack="", found=None):
        self.collect([test])
        # A run for what another left open reports the others as skipped.
        if test not in self.known or (outcome == "skipped" and test in self.ended):
            return
        self.settled.add(test)
        places = frames(stack, self._root) if found is None else found
        fields = {"exception": exception, "message": channel.shortened(message), "frames": places}
        self._recorder.write("result", id=channel.text(test), when=when, outcome=outcome, **fields)

    def end(self, test, ms):
        if test in self.running:
            self.running.remove(test)
        if test in self.known and test not in self.ended:
            self.ended.add(test)
            self._recorder.write("test_end", id=channel.text(test), ms=max(0, int(ms)))

    def broken(self, file, exception, message, stack):
        if file not in self.broken_files:
            self.broken_files.add(file)
            fields = {"exception": exception, "message": channel.shortened(message), "frames": frames(stack, self._root)}
            self._recorder.write("collection_error", file=channel.text(file), **fields)

    def unsettled(self, file=None):
        """Returns the tests that are known and have no result, in the order of their discovery."""
        tests = [test for test in self.known if test not in self.settled]
        return [test for test in tests if file is None or test.startswith(file + "::")]

    def stopped(self, limit_s):
        """Records that the running tests passed their limit; says whether there were any."""
        running, self.running = list(self.running), []
        for test in running:
            self.result(test, "timed_out", exception="Timeout", message="ran longer than %g s" % limit_s)
            if test not in self.ended:
                self.ended.add(test)
                self._recorder.write("test_end", id=channel.text(test), ms=int(limit_s * 1000))
        return bool(running)

    def crashed(self):
        """Leaves the running tests without an end, which is what says that the process died in them."""
        running, self.running = list(self.running), []
        for test in running:
            self.settled.add(test)
            self.ended.add(test)
        return bool(running)

    def finish(self):
        self._recorder.write("finish", n_collected=len(self.known), exitstatus=0)


class Ending(object):
    """How a child ended."""

    def __init__(self):
        self.code = None
        self.signal = None
        self.timed_out = False
        self.done = False
        self.errors = ""

    @property
    def crashed(self):
        return self.signal is not None


class Child(object):
    """One run of a test runner."""

    def __init__(self, driver, arguments, module, settings, environment=None):
        self._driver = driver
        self._key = os.urandom(32)
        self._number = 0
        self._buffer = b""
        reader, writer = os.pipe()
        place = tempfile.mkstemp(prefix="curate-", suffix=".json")
        order = dict(settings, key=self._key.hex(), descriptor=writer, module=module, root=driver.root)
        with os.fdopen(place[0], "w") as handle:
            json.dump(order, handle)
        variables = dict(driver.environment, **(environment or {}))
        variables["CURATE_RUN"] = place[1]
        argv = [driver.node, "--require", HERE + "/curate_channel.cjs"] + arguments
        self._process = subprocess.Popen(
            argv,
            cwd=driver.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[writer],
            start_new_session=True,
        )
        os.close(writer)
        self._reader = reader
        self._place = place[1]

    def events(self, data):
        """Returns the events in what the pipe brought; lines with a wrong seal or number are none."""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        found = []
        for line in lines:
            parts = line.split(b" ", 2)
            if len(parts) != 3:
                continue
            number, seal, body = parts
            # The module keys with the text of the key.
            expected = hmac.new(self._key.hex().encode(), number + b" " + body, hashlib.sha256).hexdigest()
            if not hmac.compare_digest(expected.encode(), seal) or int(number) <= self._number:
                continue
            self._number = int(number)
            try:
                found.append(json.loads(body.decode("utf-8", "replace")))
            except ValueError:
                continue
        return found

    def run(self, take, busy, limit_s):
        """Feeds `take` with events until the child ends, or `busy()` tests take longer than the limit."""
        ending = Ending()
        errors = self._process.stderr.fileno()
        watched = [self._reader, errors]
        tail = b""
        clock = time.monotonic
        deadline = clock() + limit_s + LOADING_S
        while True:
            ready = select.select(watched, [], [], 0.1)[0]
            for descriptor in ready:
                data = os.read(descriptor, 65536)
                if not data:
                    watched.remove(descriptor)
                elif descriptor == errors:
                    tail = (tail + data)[-TAIL_BYTES:]
                    sys.stderr.buffer.write(data)
                    sys.stderr.buffer.flush()
                else:
                    for event in self.events(data):
                        ending.done = ending.done or event.get("event") == "done"
                        take(event)
                        deadline = clock() + limit_s + (channel.GRACE_S if busy() else LOADING_S)
            status = self._process.poll()
            if status is not None and not ready:
                break
            if status is None and clock() > deadline:
                ending.timed_out = True
                self.kill()
                deadline = clock() + 60
        self.kill()
        os.close(self._reader)
        self._process.stderr.close()
        if os.path.exists(self._place):
            os.unlink(self._place)
        ending.errors = tail.decode("utf-8", "replace")
        if status is not None and status < 0 and not ending.timed_out:
            ending.signal = -status
        ending.code = status
        return ending

    def kill(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except OSError:
            # Nothing of the group is left.
            pass


class Driver(object):
    """What all runners share."""

    def __init__(self, plan, recorder):
        self.plan = plan
        self.root = plan["root"]
        self.runner = plan["runner"]
        self.selection = plan["selection"]
        self.limit_s = plan["test_wall_s"]
        self.seed = plan["order_seed"]
        self.report = Report(recorder, plan)
        self.package = Package(self.root)
        self.environment = dict(os.environ)
        self.environment.pop("CURATE_RUN", None)
        # Not one that a package brings: the environment's programs come first on the path.
        path = [place for place in os.environ.get("PATH", "").split(":") if "node_modules" not in place]
        self.node = shutil.which("node", path=":".join(path)) or "node"
        self.random = None if self.seed is None else random.Random(self.seed)

    def module(self, path):
        return os.path.join(self.root, "node_modules", path)

    def program(self, name):
        """Returns the script behind a package's command."""
        directory = self.module(name)
        try:
            with open(os.path.join(directory, "package.json"), encoding="utf-8") as handle:
                entry = json.load(handle).get("bin")
        except (OSError, ValueError):
            return None
        if isinstance(entry, dict):
            entry = entry.get(name)
        return os.path.normpath(os.path.join(directory, entry)) if entry else None

    def version(self, name):
        """Returns major and minor version of an installed package."""
        try:
            with open(self.module(name + "/package.json"), encoding="utf-8") as handle:
                parts = json.load(handle)["version"].split(".")
                return int(parts[0]), int(parts[1])
        except (OSError, ValueError, KeyError, IndexError):
            return 0, 0

    def prepare(self):
        """Runs what the repository's scripts run before its tests, but not its linters."""
        for variables, words in self.package.preparations(self.runner):
            sys.stderr.write("curate: prepare: %s\n" % " ".join(words))
            sys.stderr.flush()
            command = " ".join(shlex.quote(word) if not re.match(r"^[\w*?{}./,=:@-]+$", word) else word for word in words)
            try:
                subprocess.run(
                    ["sh", "-c", command],
                    cwd=self.root,
                    env=dict(self.environment, **variables),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr,
                    timeout=PREPARE_S,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                # Tests that need its outcome fail by themselves.
                sys.stderr.write("curate: prepare: %s\n" % channel.describe(error))

    def listed(self):
        """Returns the files of the selection, or `None` for all."""
        kind, items = self.selection["kind"], self.selection["items"]
        if kind == "all":
            return None
        files = []
        for item in items:
            file = item.partition("::")[0] if kind == "tests" else item.rstrip("/")
            path = os.path.join(self.root, file)
            if os.path.isdir(path):
                prefix = file + "/"
                found = [name for name in self.every_file() if name.startswith(prefix) or file in ("", ".")]
            else:
                found = [file] if os.path.isfile(path) else []
            files += [name for name in found if name not in files]
        return files

    def shuffled(self, files):
        files = list(files)
        if self.random is not None:
            self.random.shuffle(files)
        return files

    def settings(self, **more):
        return dict(
            {"order_seed": self.seed, "loose": self.plan["loose"], "wanted": None, "files": None, "runner": self.runner},
            **more
        )

    def take(self, event):
        """Turns one event into records."""
        kind, report = event.get("event"), self.report
        if kind == "collected":
            report.collect(event["ids"])
        elif kind == "begin":
            report.begin(event["id"])
        elif kind == "result":
            fields = {key: event[key] for key in ("exception", "message", "stack") if event.get(key) is not None}
            report.result(event["id"], event["outcome"], event["when"], **fields)
        elif kind == "end":
            report.end(event["id"], event["ms"])
        elif kind == "broken":
            report.broken(event["file"], event.get("exception"), event.get("message", ""), event.get("stack", ""))

    def busy(self):
        return bool(self.report.running)

    def child(self, arguments, module, settings, take=None, environment=None, busy=None):
        child = Child(self, arguments, module, settings, environment)
        ending = child.run(take or self.take, busy or self.busy, self.limit_s)
        if ending.signal is not None:
            self.report.signal = ending.signal
        return ending

    def not_loaded(self, file, ending):
        """Records that a file ended before it had a test to report."""
        if ending.timed_out:
            message = "no test had begun after %g s" % (self.limit_s + LOADING_S)
            self.report.broken(file, "Timeout", message, "")
            return
        errors = re.sub(r"\x1b\[[0-9;]*m", "", ending.errors)
        if ending.signal is not None:
            errors = "signal %d ended the process\n%s" % (ending.signal, errors)
        match = re.search(r"\b(\w*(?:Error|Exception))(?: \[\w+\])?: .*", errors)
        message = errors[match.start() :] if match else errors[-3000:]
        self.report.broken(file, match.group(1) if match else None, message.strip(), errors)


class Together(Driver):
    """A runner that takes all files at once."""

    only = None

    def run(self):
        files = self.listed()
        if files is not None and not files:
            return
        wanted = self.selection["items"] if self.selection["kind"] == "tests" else None
        self.seen = set()
        ending = self.start(files, wanted)
        if ending.done and not ending.timed_out:
            return
        self.settle(ending)
        files = self.every_file() if files is None else files
        for file in files:
            if file not in self.seen and file not in self.report.broken_files:
                ending = self.start([file], wanted)
                if not (ending.done and not ending.timed_out):
                    if not self.settle(ending) and file not in self.seen:
                        self.not_loaded(file, ending)
        for file in files:
            self.run_rest(file, wanted)
        self.single_out()

    def run_rest(self, file, wanted):
        """Runs what a runner that does not tell its tests beforehand had not come to."""

    def take(self, event):
        if self.only is not None and event.get("id", self.only) != self.only:
            return
        if event.get("event") == "file_end":
            self.seen.add(event["file"])
        elif event.get("event") == "collected":
            self.seen.update(test.partition("::")[0] for test in event["ids"])
        elif event.get("event") == "result":
            self.seen.add(event["id"].partition("::")[0])
        Driver.take(self, event)

    def settle(self, ending):
        """Records in which test a child stopped; says whether that is known."""
        if ending.timed_out:
            return self.report.stopped(self.limit_s)
        return self.report.crashed()

    def single_out(self):
        """Runs what was collected and has no result one by one, so that a hang is told from what stood behind it."""
        left = self.report.unsettled()
        if not left or self.selection["kind"] == "tests" and len(self.selection["items"]) == 1 or len(left) > MAX_SINGLE:
            return
        for test in left:
            # The runner tells of the others as skipped.
            self.only = test
            self.report.begin(test)
            ending = self.start([test.partition("::")[0]], [test])
            if not ending.done or ending.timed_out:
                self.settle(ending)


class Mocha(Together):
    def __init__(self, plan, recorder):
        Together.__init__(self, plan, recorder)
        self.variables, self.words = self.package.command("mocha")
        self.options, self.specs, self.extra = {}, [], []
        self.is_old = self.version("mocha") < (6, 0)

    def prepare(self):
        Together.prepare(self)
        if self.is_old:
            self.read_words()
            return
        settings = self.settings(arguments=self.words)

        def take(event):
            if event.get("event") == "probe":
                self.options, self.specs = event["options"], event["specs"]

        ending = self.child([HERE + "/curate_probe.cjs"], "curate_probe.cjs", settings, take, self.variables)
        if not self.options:
            sys.stderr.write("curate: mocha's configuration cannot be read: %s\n" % ending.errors[-500:])
            self.read_words()

    def read_words(self):
        """Parts options from files where mocha itself cannot be asked."""
        words = list(self.words)
        opts = os.path.join(self.root, "test/mocha.opts")
        if os.path.isfile(opts):
            with open(opts, encoding="utf-8", errors="replace") as handle:
                lines = [line for line in handle.read().splitlines() if not line.strip().startswith("#")]
            words += shlex.split(" ".join(lines))
        while words:
            word = words.pop(0)
            if word in MOCHA_VALUES and words:
                value = words.pop(0)
                if word not in ("-R", "--reporter", "-t", "--timeout", "--opts", "-O", "--reporter-options"):
                    self.extra += [word, value]
            elif word.startswith("-"):
                if word.partition("=")[0] not in ("--reporter", "--timeout", "--watch", "-w", "--opts", "--parallel"):
                    self.extra.append(word)
            else:
                self.specs.append(word)

    def every_file(self):
        files = tree_files(self.root)
        extensions = tuple("." + ext.lstrip(".") for ext in self.options.get("extension") or ["js", "cjs", "mjs"])
        recursive = self.options.get("recursive") or "--recursive" in self.extra

        def in_directory(path, directory):
            return path.endswith(extensions) and (recursive or "/" not in path[len(directory) + 1 :])

        specs = [spec for spec in self.specs if isinstance(spec, str)] or ["test"]
        ignored = self.options.get("ignore") or self.options.get("exclude") or []
        return expand(specs + ["!" + pattern for pattern in ignored], files, in_directory)

    def start(self, files, wanted):
        flags, arguments = [], []
        options = {key: value for key, value in self.options.items() if len(key) > 1 and value is not None}
        for name in MOCHA_NODE_OPTIONS:
            values = options.pop(name, None)
            for value in values if isinstance(values, list) else [values] if values else []:
                flags.append("--%s=%s" % (name, value))
        for value in options.pop("node-option", None) or []:
            flags.append("--" + value.lstrip("-"))
        # Its own default is short for a machine that runs other things as well; tests may still set theirs.
        timeout = max(int(self.limit_s * 1000), 1)
        if self.options:
            options.update({"timeout": timeout, "reporter": HERE + "/curate_mocha.cjs"})
            place = tempfile.NamedTemporaryFile("w", prefix="curate-mocha-", suffix=".json", delete=False)
            with place as handle:
                json.dump(options, handle)
            arguments += ["--config", place.name, "--no-package", "--no-opts"]
        else:
            arguments += ["--opts", "/dev/null"] if self.is_old else []
            arguments += ["--reporter", HERE + "/curate_mocha.cjs", "--timeout", str(timeout)] + self.extra
        program = self.module("mocha/bin/_mocha")
        if not os.path.exists(program):
            program = self.module("mocha/bin/mocha.js")
        specs = self.specs if files is None else files
        settings = self.settings(wanted=wanted, files=files)
        return self.child(flags + [program] + arguments + list(specs), "curate_mocha.cjs", settings, None, self.variables)


def name_pattern(tests, negated=False):
    """Returns an expression that matches the full names of tests, as jest and vitest build them."""
    names = set()
    for test in tests:
        name = re.sub(r"#\d+\Z", "", test.partition("::")[2])
        # A name may hold what stands between names as well.
        names.add(re.escape(name).replace(re.escape(" > "), "(?: > | )"))
    # JavaScript refuses escapes that it does not know where Python is lenient.
    return ("^(?!(?:%s)$)" if negated else "^(?:%s)$") % "|".join(sorted(re.sub(r"\\([^\w\\^$.*+?()\[\]{}|/-])", r"\1", name) for name in names))


def kept_options(words, valued, plain):
    """Returns the options of the repository's command that say what is tested and how it is compiled."""
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        name, mark, _ = word.partition("=")
        if name in valued:
            kept.append(word)
            if not mark and words:
                kept.append(words.pop(0))
        elif name in plain:
            kept.append(word)
    return kept


class Jest(Together):
    def every_file(self):
        program = self.program("jest")
        variables, words = self.package.command("jest")
        listing = subprocess.run(
            [self.node, program, "--listTests", "--json"] + self.config(words),
            cwd=self.root,
            env=dict(self.environment, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LOADING_S * 4,
            check=False,
        )
        for line in reversed(listing.stdout.decode("utf-8", "replace").splitlines()):
            try:
                return sorted(os.path.relpath(path, self.root) for path in json.loads(line))
            except (ValueError, TypeError):
                continue
        return []

    @staticmethod
    def config(words):
        valued = ("--config", "-c", "--env", "--rootDir", "--selectProjects", "--roots", "--projects", "--preset")
        return kept_options(words, valued, ("--injectGlobals", "--passWithNoTests"))

    def run(self):
        self.cut = set()
        Together.run(self)

    def settle(self, ending):
        files = {test.partition("::")[0] for test in self.report.running}
        known = Together.settle(self, ending)
        self.cut |= files if known else set()
        return known

    def run_rest(self, file, wanted):
        for _ in range(MAX_RESTS):
            if file not in self.cut or wanted is not None:
                return
            self.cut.discard(file)
            done = [test for test in self.report.ended if test.startswith(file + "::")]
            ending = self.start([file], None, done)
            if ending.timed_out or not ending.done:
                self.settle(ending)

    def start(self, files, wanted, without=()):
        variables, words = self.package.command("jest")
        arguments = [self.program("jest")] + self.config(words)
        arguments += ["--reporters=" + HERE + "/curate_jest.cjs", "--coverage=false", "--ci", "--runInBand", "--silent=false"]
        arguments += ["--watchman=false", "--cacheDirectory=/tmp/curate-jest", "--passWithNoTests", "--bail=0", "--notify=false"]
        arguments += ["--testTimeout=%d" % max(int(self.limit_s * 1000), 1)] if self.version("jest") >= (24, 9) else []
        arguments += ["--forceExit"]
        if self.seed is not None:
            variables = dict(variables, CURATE_ORDER_SEED=str(self.seed))
            arguments.append("--testSequencer=" + HERE + "/curate_jest_order.cjs")
            if self.version("jest") >= (29, 5):
                arguments += ["--randomize", "--seed=%d" % (self.seed % (1 << 31))]
        if wanted is not None and not self.plan["loose"]:
            arguments.append("--testNamePattern=" + name_pattern(wanted))
        elif without:
            arguments.append("--testNamePattern=" + name_pattern(without, True))
        if files is not None:
            arguments += ["--runTestsByPath"] + list(files)
        variables = dict({"NODE_ENV": "test"}, **variables)
        return self.child(arguments, "curate_jest.cjs", self.settings(files=files), None, variables)


class Vitest(Together):
    def busy(self):
        # It tells of a test's begin only when the thread of the tests has time for it.
        return len(self.report.known) > len(self.report.settled)

    def every_file(self):
        pattern = re.compile(r"\.(?:test|spec)\.[cm]?[jt]sx?\Z")
        return [path for path in tree_files(self.root) if pattern.search(path)]

    @staticmethod
    def config(words):
        valued = ("--config", "-c", "--root", "-r", "--dir", "--environment", "--project", "--mode")
        return kept_options(words, valued, ("--globals", "--dom", "--no-isolate", "--typecheck.enabled=false"))

    def start(self, files, wanted):
        variables, words = self.package.command("vitest")
        version = self.version("vitest")
        limit = max(int(self.limit_s * 1000), 1)
        arguments = [self.program("vitest"), "run"] + self.config(words)
        arguments += ["--reporter=" + HERE + "/curate_vitest.mjs", "--coverage.enabled=false", "--passWithNoTests"]
        arguments.append("--testTimeout=%d" % limit)
        if version >= (1, 0):
            arguments += ["--hookTimeout=%d" % limit, "--retry=0", "--bail=0", "--watch=false", "--no-file-parallelism"]
        if self.seed is not None:
            parts = ["files", "tests"] if version >= (1, 0) else []
            arguments += ["--sequence.shuffle.%s" % part for part in parts] or ["--sequence.shuffle"]
            arguments.append("--sequence.seed=%d" % (self.seed % (1 << 31)))
        if wanted is not None and not self.plan["loose"]:
            arguments.append("--testNamePattern=" + name_pattern(wanted))
        arguments += list(files or [])
        variables = dict({"NODE_ENV": "test"}, **variables)
        return self.child(arguments, "curate_vitest.cjs", self.settings(files=files), None, variables)


class Separately(Driver):
    """A runner of which each file is a process of its own."""

    def run(self):
        files = self.listed()
        for file in self.shuffled(self.every_file() if files is None else files):
            self.run_file(file)


class Ava(Separately):
    PATTERNS = (
        "test.{E} {src,source}/test.{E} **/test-*.{E} **/*.spec.{E} **/*.test.{E} **/test/**/*.{E} **/tests/**/*.{E} "
        "**/__tests__/**/*.{E} !**/__tests__/**/__{helper,fixture}__/**/* !**/__tests__/**/__{helpers,fixtures}__/**/* "
        "!**/{test,tests}/**/{helper,helpers,fixture,fixtures}/**/*"
    )

    def every_file(self):
        configured = self.package.data.get("ava") if isinstance(self.package.data.get("ava"), dict) else {}
        found = dict(configured)

        def take(event):
            if event.get("event") == "probe":
                found.update({key: value for key, value in event.items() if key != "event" and value})

        if any(os.path.exists(os.path.join(self.root, "ava.config." + end)) for end in ("js", "cjs", "mjs")):
            self.child([HERE + "/curate_probe.cjs"], "curate_probe.cjs", self.settings(), take)
        extensions = found.get("extensions") or ["cjs", "mjs", "js"]
        extensions = list(extensions) if isinstance(extensions, (list, dict)) else ["js"]
        patterns = found.get("files") or self.PATTERNS.replace("{E}", "{%s,}" % ",".join(extensions)).split()
        patterns = [patterns] if isinstance(patterns, str) else patterns
        files = [path for path in tree_files(self.root) if path.endswith(tuple("." + end for end in extensions))]
        files = expand([pattern for pattern in patterns if isinstance(pattern, str)], files, lambda *_: True)
        return [path for path in files if not any(part.startswith("_") for part in [os.path.basename(path)])]

    def run_file(self, file):
        variables, _ = self.package.command("ava")
        arguments = [self.program("ava"), "--tap", "--serial", "--timeout=30m", file]
        if self.selection["kind"] == "tests" and not self.plan["loose"]:
            titles = [re.sub(r"#\d+\Z", "", test.partition("::")[2]) for test in self.selection["items"] if test.startswith(file + "::")]
            if len(titles) <= 100:
                arguments[1:1] = ["--match=" + title for title in titles]
        state = {"hook": None, "busy": False}

        def take(event):
            if event.get("event") == "hook":
                state["hook"] = event
            elif event.get("event") == "broken":
                state["broken"] = event
            else:
                state["busy"] = state["busy"] or event.get("event") == "collected"
                self.take(event)

        ending = self.child(arguments, "curate_ava.cjs", self.settings(files=[file]), take, variables, lambda: state["busy"])
        left = self.report.unsettled(file)
        cause = state["hook"] or state.get("broken")
        if left and cause:
            # A hook that fails, or an exception outside any test, takes those along that had not ended.
            for test in left:
                self.report.result(test, "failed", "setup", cause.get("exception"), cause["message"], cause["stack"])
        elif left:
            # Tests run one after the other: the first without a result is the one that ran.
            self.report.begin(left[0])
            self.report.stopped(self.limit_s) if ending.timed_out else self.report.crashed()
        elif cause:
            self.report.broken(file, cause.get("exception"), cause["message"], cause["stack"])
        elif not any(test.startswith(file + "::") for test in self.report.known):
            if ending.timed_out or (ending.code and self.selection["kind"] != "tests" and uses(self.root, file, "ava")):
                self.not_loaded(file, ending)


def script_flags(words):
    """Returns the options for node itself in a command that runs `node --test`."""
    flags, words = [], list(words)
    while words:
        word = words.pop(0)
        if word in NODE_VALUES and words:
            flags += [word, words.pop(0)]
        elif word.startswith("-") and not word.startswith(("--test", "--watch", "--experimental-test-coverage")):
            flags.append(word)
    return flags


class NodeTest(Separately):
    PATTERNS = "**/*.test.{E} **/*-test.{E} **/*_test.{E} **/test-*.{E} **/test.{E} **/test/**/*.{E}"

    def flags(self):
        variables, words = self.package.command("node_test")
        flags = script_flags(words)
        wrappers = " ".join(self.package.scripts.values())
        if not any("tsx" in flag or "ts-node" in flag for flag in flags) and os.path.isdir(self.module("tsx")):
            flags += ["--import", "tsx"] if re.search(r"\btsx\b", wrappers) else []
        return variables, flags

    def every_file(self):
        _, words = self.package.command("node_test")
        files = [path for path in tree_files(self.root) if path.endswith(SCRIPT_ENDINGS)]
        skip, specs = False, []
        for word in words:
            if not skip and not word.startswith("-"):
                specs.append(word)
            skip = word in NODE_VALUES
        patterns = specs or self.PATTERNS.replace("{E}", "{js,cjs,mjs,ts,mts,cts}").split()
        return expand(patterns, files, lambda path, _: True)

    def run_file(self, file):
        variables, flags = self.flags()
        arguments = flags + ["--test-reporter=" + HERE + "/curate_node_test.cjs", "--test-reporter-destination=stderr"]
        count = len(self.report.known)
        settings = self.settings(files=[file])
        ending = self.child(arguments + [os.path.join(self.root, file)], "curate_node_test.cjs", settings, None, variables)
        if ending.timed_out:
            if not self.report.stopped(self.limit_s):
                self.report.broken(file, "Timeout", "no result for %g s" % (self.limit_s + LOADING_S), "")
        elif ending.crashed:
            if not self.report.crashed():
                self.not_loaded(file, ending)
        elif ending.code and len(self.report.known) == count and self.selection["kind"] != "tests":
            self.not_loaded(file, ending)


class Tap(Separately):
    PATTERN = re.compile(r"(?:(?:/|^)(?:tests?|__tests?__)/.*|\.(?:tests?|spec)|^/?tests?)\.(?:[mc]js|[jt]sx?)\Z")

    def every_file(self):
        _, words = self.package.command("tap")
        files = [path for path in tree_files(self.root) if path.endswith(SCRIPT_ENDINGS)]
        configured = self.package.data.get("tap") if isinstance(self.package.data.get("tap"), dict) else {}
        specs = configured.get("files") or configured.get("include") or [word for word in words if not word.startswith("-")]
        specs = [specs] if isinstance(specs, str) else specs
        if specs:
            found = expand([spec for spec in specs if isinstance(spec, str)], files, lambda *_: True)
            if found:
                return found
        # What is no test but lies among them (fixtures, helpers) does not use the library.
        return [path for path in files if self.PATTERN.search(path) and uses(self.root, path, "tap")]

    def flags(self, file):
        flags = []
        if os.path.exists(self.module("@tapjs/mock/dist/esm/import.mjs")):
            flags += ["--import", self.module("@tapjs/mock/dist/esm/import.mjs")]
        if file.endswith(("ts", "tsx")):
            for place, flag in (("@isaacs/ts-node-temp-fork-for-pr-2009/import.mjs", "--import"), ("tsx/dist/loader.mjs", "--import"), ("ts-node/register/index.js", "--require")):
                if os.path.exists(self.module(place)):
                    return flags + [flag, self.module(place)]
        return flags

    def run_file(self, file):
        variables, _ = self.package.command("tap")
        variables = dict({"NODE_ENV": os.environ.get("NODE_ENV", "test"), "TAP": "1"}, **variables)
        reader = TapReader(self.report, file, self.root)

        def take(event):
            if event.get("event") == "tap":
                reader.feed(event["text"])

        arguments = self.flags(file) + [os.path.join(self.root, file)]
        ending = self.child(arguments, "curate_tap.cjs", self.settings(files=[file]), take, variables)
        if ending.timed_out:
            # The innermost subtest that is open is the one that ran; those around it did not end either.
            if not self.report.stopped(self.limit_s):
                self.report.broken(file, "Timeout", "no result for %g s" % self.limit_s, "")
            return
        if ending.crashed:
            if not self.report.crashed():
                self.not_loaded(file, ending)
            return
        reader.finish()
        self.report.crashed()
        if not reader.consistent:
            # Points that do not add up were not all written by the library.
            for test in reader.ids:
                self.report.result(test, "failed", "teardown", "TapError", "the file's numbers and plans do not add up")
        if not reader.ids and ending.code and self.selection["kind"] != "tests":
            self.not_loaded(file, ending)


RUNNERS = {"node_test": NodeTest, "jest": Jest, "vitest": Vitest, "mocha": Mocha, "ava": Ava, "tap": Tap}


def hide():
    """Keeps the processes below from looking into the memory of this one."""
    pr_set_dumpable = 4
    try:
        ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)
    except (OSError, AttributeError):
        # Without it only code that reads another process's memory gains anything.
        pass


def main():
    try:
        plan = channel.read_plan(sys.argv[1])
        recorder = channel.Recorder(str(plan.pop("results")), str(plan.pop("nonce")))
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write("curate: reach the results channel: %s\n" % channel.describe(error))
        sys.exit(channel.CHANNEL_BROKEN)
    hide()
    driver = RUNNERS[plan["runner"]](plan, recorder)
    recorder.write("start", pid=os.getpid())
    driver.prepare()
    driver.run()
    driver.report.finish()
    recorder.write("exit", code=0, signal=driver.report.signal, killed=False)


if __name__ == "__main__":
    main()
