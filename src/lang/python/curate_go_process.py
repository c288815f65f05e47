"""One run of a Go test binary for `curate_go`, and what can be said of the tests in it.

The rules by which a test has passed stand in that module.
"""

import os
import re
import selectors
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
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

STATE = re.compile(r"=== (RUN|PAUSE|CONT|NAME)\s+(\S+)$")
VERDICT = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d+\.\d+s\)$")
LOG_POSITION = re.compile(r"^\s+([^\s:/]+\.go):(\d+): ")
STACK_POSITION = re.compile(r"^\t(/\S+\.go):(\d+)(?: .*)?$")
STACK_FUNCTION = re.compile(r"^(?:created by )?(\S.*?)(?:\(.*\))?(?: in goroutine \d+)?$")


class Process(object):
    """One run of a test binary for one test, and what can be said of the tests in it."""

    def __init__(self, suite, package, name, parts=None):
        """Runs a test; of its subtests only those whose next part of the name is listed, where there is a list."""
        self.suite, self.package, self.name = suite, package, name
        self.events, self.lines, self.order = {}, {}, []
        self.current, self.top = name, name.partition("/")[0]
        self.errors = b""
        self.timed_out = False
        self.log = os.path.join(tempfile.mkdtemp(dir=suite.scratch), "log")
        began = time.monotonic()
        pattern = "/".join("^%s$" % quoted(part) for part in name.split("/"))
        if parts is not None:
            pattern += "/^(%s)$" % "|".join(quoted(part) for part in parts)
        self.status = self.execute(pattern) if identity(package.binary) == package.identity else None
        self.ms = int((time.monotonic() - began) * 1000)
        self.complete = os.path.isfile(self.log) and os.path.getsize(self.log) > 0
        self.clean = self.status == 0 and self.complete and not self.timed_out

    def execute(self, pattern):
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
        if self.complete:
            around = [other for other in self.order if self.name.startswith(other + "/") and "FAIL" in self.events[other]]
            return ("failed", None, "passes, but the test around it fails" if around else message, [])
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
