"""What both test runners share: the result channel, time limits, stubs, tracebacks.

Runs on Python 2.7 and on 3.5 and later (stubs only on 3). Whatever repository code could replace later (`os.write`,
`json.dumps`, clocks) is taken here, before any of that code runs, and kept out of module attributes where libraries
that fake time look for it.
"""

import base64
import errno
import fcntl
import hashlib
import json
import os
import random
import select
import shutil
import signal
import struct
import sys
import time
import types

MESSAGE_BYTES = 4000
FRAMES_HEAD = 10
FRAMES_TAIL = 40
IDS_PER_RECORD = 200
# What we exit with when the plan or the results file cannot be reached.
CHANNEL_BROKEN = 97
# Seconds that a test gets to react to the soft limit before the whole process is killed.
GRACE_S = 5.0
# Sequence number of the supervisor's only record; above any of the child's.
SUPERVISOR_SEQUENCE = 10**15
# Where compiled modules of the tree are shared, if they are.
BYTECODE = "/opt/bytecode"
# Modification time of the first edit of a series; each later one's is a second later.
EDIT_TIME = 10**9
# Records that one test may write when it runs in a process of its own.
CHILD_RECORDS = 10**6


class Timeout(BaseException):
    """Raised in a test that has run out of time. Not an `Exception`, so that few tests catch it."""


def text(value):
    """Returns `value` as text that any JSON reader accepts: lone surrogates and odd bytes become escapes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if sys.version_info[0] < 3:
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(value):
    """Returns text of at most `MESSAGE_BYTES` bytes of UTF-8."""
    encoded = text(value).encode("utf-8")
    if len(encoded) > MESSAGE_BYTES:
        encoded = encoded[: MESSAGE_BYTES - 4] + b" ..."
    return encoded.decode("utf-8", "ignore")


def describe(value):
    """Returns the text of an exception or a report; its `__str__` is repository code and may do anything."""
    try:
        is_text = isinstance(value, (bytes, type("")))
        return shortened(value if is_text else str(value))
    except BaseException as failure:
        return "<unprintable %s: %s>" % (type(value).__name__, type(failure).__name__)


class Pipe(object):
    """A file descriptor that survives tests which close or reuse descriptors.

    It is moved to a high number, checked before each use, and reopened by path where there is one.
    """

    def __init__(self, descriptor, path=None):
        self._write, self._fstat, self._open = os.write, os.fstat, os.open
        self._path = path
        self._descriptor = descriptor
        for lowest in (600, 200, 60):
            try:
                self._descriptor = fcntl.fcntl(descriptor, getattr(fcntl, "F_DUPFD_CLOEXEC", fcntl.F_DUPFD), lowest)
            except (OSError, IOError, ValueError):
                continue
            os.close(descriptor)
            break
        fcntl.fcntl(self._descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        self._identity = self._identify()

    def _identify(self):
        try:
            status = self._fstat(self._descriptor)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def send(self, payload):
        if self._identify() != self._identity:
            if self._path is None:
                return
            self._descriptor = self._open(self._path, os.O_WRONLY | os.O_APPEND)
            self._identity = self._identify()
        while payload:
            payload = payload[self._write(self._descriptor, payload) :]


class Recorder(object):
    """Appends records to the results file, each sealed with a digest over the nonce, its number and its text.

    The nonce itself is never written, so code that reads or appends to the file cannot make a record that counts.
    """

    def __init__(self, path, nonce, sequence=0):
        self._pipe = Pipe(os.open(path, os.O_WRONLY | os.O_APPEND), path)
        self._nonce = nonce.encode("ascii")
        self._sequence = sequence
        self._dumps, self._sha256, self._pack = json.dumps, hashlib.sha256, struct.pack
        self._getpid = os.getpid
        self._pid = os.getpid()

    def write(self, kind, **fields):
        # A test that forks and falls through into the runner must not report for us.
        if self._getpid() != self._pid:
            return
        self._sequence += 1
        fields["kind"] = kind
        body = self._dumps(fields, sort_keys=True).encode("ascii")
        number = str(self._sequence).encode("ascii")
        digest = self._sha256()
        for part in (self._nonce, number, body):
            digest.update(self._pack("<Q", len(part)))
            digest.update(part)
        seal = digest.hexdigest()[:32].encode("ascii")
        try:
            # The leading newline ends whatever anybody else left behind in the file.
            self._pipe.send(b"\n" + number + b" " + seal + b" " + body + b"\n")
        except (OSError, IOError):
            # A full disk or a deleted file: the closing record will be missing, and the run incomplete.
            pass

    def enter_child(self):
        self._pid = self._getpid()

    def leave_child(self):
        """Goes on with numbers above all that a child may have used."""
        self._sequence += CHILD_RECORDS

    def write_collected(self, ids):
        ids = [text(test) for test in ids]
        for start in range(0, len(ids), IDS_PER_RECORD):
            self.write("collected", ids=ids[start : start + IDS_PER_RECORD])


class Watch(object):
    """The time limit of one phase of a test: a soft one by signal, a hard one by the supervisor."""

    def __init__(self, limit_s, pipe):
        self._limit_s = limit_s
        self._pipe = pipe
        self._setitimer, self._getitimer, self._signal = signal.setitimer, signal.getitimer, signal.signal
        self._getsignal = signal.getsignal
        self._getpid = os.getpid
        self._pid = os.getpid()
        self.clock = getattr(time, "monotonic", time.time)
        self.fired = False
        self._own = False

    def _on_alarm(self, _number, _frame):
        if self._own and self._getpid() == self._pid:
            self.fired = True
            raise Timeout("ran longer than %g s" % self._limit_s)

    def _tell(self, state):
        if self._getpid() == self._pid:
            try:
                self._pipe.send(state)
            except (OSError, IOError):
                # The supervisor is gone or the pipe was closed by a test: the sandbox's own limit remains.
                pass

    def enter_child(self):
        self._pid = self._getpid()

    def arm(self):
        self.fired = False
        self._tell(b"1")
        self._before = self._getitimer(signal.ITIMER_REAL)
        if 0 < self._before[0] < self._limit_s:
            # A plugin with a stricter limit of its own is at work.
            return
        self._handler = self._signal(signal.SIGALRM, self._on_alarm)
        self._began = self.clock()
        self._own = True
        self._setitimer(signal.ITIMER_REAL, self._limit_s)

    def disarm(self):
        """Returns whether the limit was passed."""
        if self._own:
            self._own = False
            self._setitimer(signal.ITIMER_REAL, 0)
            if self._getsignal(signal.SIGALRM) == self._on_alarm:
                self._signal(signal.SIGALRM, signal.SIG_DFL if self._handler is None else self._handler)
            rest = self._before[0] - (self.clock() - self._began)
            if self._before[0] and rest > 0:
                self._setitimer(signal.ITIMER_REAL, rest, self._before[1])
        self._tell(b"0")
        return self.fired


def begin(path, load):
    """Returns the plan, a `Recorder` and a `Watch`, in the process that is to run the tests.

    `load` imports what runs tests and nothing of the repository; it is called before the forks of several runs.
    """
    try:
        plan = read_plan(path)
        if "members" in plan:
            started = in_series(plan, load)
        elif "company" in plan:
            started = in_company(plan, load)
        else:
            started = supervise(plan)
    except (OSError, IOError, ValueError, KeyError) as error:
        sys.stderr.write("curate: reach the results channel: %s\n" % describe(error))
        sys.stderr.flush()
        os._exit(CHANNEL_BROKEN)
    if isinstance(started, int):
        os._exit(started)
    return started


def read_plan(path):
    """Reads the plan and removes it, so that the nonce is nowhere on disk when repository code starts."""
    with open(path) as handle:
        plan = json.load(handle)
    os.unlink(path)
    sys.argv[1:] = []
    temporary = os.environ.get("TMPDIR")
    if temporary and not os.path.isdir(temporary):
        try:
            os.makedirs(temporary)
        except OSError:
            # A process beside this one was faster.
            if not os.path.isdir(temporary):
                raise
    return plan


def seed_random(plan):
    """Gives the random numbers of the standard library and of numpy the planned seed, if there is one."""
    if plan["random_seed"] is None:
        return
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed(plan["random_seed"])


def supervise(plan, wall_s=None):
    """Forks: the child returns the plan, its `Recorder` and its `Watch`; the parent waits and returns the exit status.

    The parent kills a child that is stuck where no Python signal handler runs, or has run for `wall_s` seconds, and
    records how the child ended.
    """
    limit_s = plan["test_wall_s"]
    nonce = str(plan.pop("nonce"))
    results = str(plan.pop("results"))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        renumber_main_thread()
        return plan, Recorder(results, nonce), Watch(limit_s, Pipe(writer))
    os.close(writer)
    status, killed = wait(child, reader, limit_s + GRACE_S, wall_s)
    os.close(reader)
    exit_code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    recorder = Recorder(results, nonce, SUPERVISOR_SEQUENCE)
    recorder.write("exit", code=exit_code, signal=by_signal, killed=killed)
    return exit_code if exit_code is not None else 128 + by_signal


def renumber_main_thread():
    """Corrects what a fork leaves of its parent where threads were loaded before."""
    if "threading" in sys.modules:
        thread = sys.modules["threading"].current_thread()
        getattr(thread, "_set_native_id", lambda: None)()


def share_bytecode(root):
    """Lets compiled modules of the tree be read from, or where it is writable written to, a place outside of it.

    Returns whether that place is there. Only for the tree: packages have theirs beside them.
    """
    if sys.version_info < (3, 5) or not os.path.isdir(BYTECODE) or getattr(sys, "pycache_prefix", None):
        return False
    from importlib import _bootstrap_external as machinery

    original = machinery.cache_from_source

    def cache_from_source(path, *arguments, **options):
        return bytecode_place(root, original(path, *arguments, **options))

    machinery.cache_from_source = cache_from_source
    sys.dont_write_bytecode = not os.access(BYTECODE, os.W_OK)
    return True


def bytecode_place(root, path):
    """Returns where the compiled module that belongs at `path` is."""
    return BYTECODE + path if path.startswith(root.rstrip("/") + "/") else path


def in_company(company, load):
    """Goes through two plans in forks of this process, the second after the first or beside it; as `supervise`."""
    other, own = [read_plan(path) for path in company["plans"]]
    load()
    if company["company"] == "before":
        started = supervise(other)
        return supervise(own) if isinstance(started, int) else started
    beside = os.fork()
    if beside == 0:
        return supervise(other)
    started = supervise(own)
    if isinstance(started, int):
        os.waitpid(beside, 0)
    return started


def in_series(series, load):
    """Goes through plans in turn, each with a file of the tree edited, in a fork of this process; as `supervise`.

    When the time for all is up only the last one is still run.
    """
    members = [(read_plan(member["plan"]), member["edit"]) for member in series["members"]]
    load()
    if sys.version_info >= (3, 8):
        # What one fork compiles the next need not: what is edited has a time of its own.
        sys.pycache_prefix = "/tmp/curate-bytecode"
        sys.dont_write_bytecode = False
    prefix = members[0][0]["root"].rstrip("/") + "/"
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    if any(path.startswith(prefix) for path in files if path):
        raise ValueError("what runs the tests is part of the tree")
    clock = getattr(time, "monotonic", time.time)
    end = clock() + series["budget_s"]
    code = 0
    for number, (plan, edit) in enumerate(members):
        if clock() > end and number + 1 < len(members):
            continue
        undo = edited(prefix, edit, number)
        if sys.version_info >= (3, 3):
            __import__("importlib").invalidate_caches()
        started = supervise(plan, series["wall_s"])
        if not isinstance(started, int):
            return started
        code = started
        try:
            # Whatever the tests left running; all there is in the sandbox but its first process and this one.
            os.kill(-1, signal.SIGKILL)
        except OSError:
            pass
        undo()
        temporary = os.environ.get("TMPDIR")
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
            os.makedirs(temporary)
    return code


def edited(prefix, edit, number):
    """Writes or removes a file of the tree; returns what restores it."""
    if edit is None:
        return lambda: None
    path = prefix.encode("ascii") + base64.b64decode(edit["path"])
    with open(path, "rb") as handle:
        original = handle.read()
    status = os.stat(path)

    def write(content, times):
        with open(path, "wb") as handle:
            handle.write(content)
        os.chmod(path, status.st_mode & 0o7777)
        os.utime(path, times)

    if edit["content"] is None:
        os.unlink(path)
    else:
        write(base64.b64decode(edit["content"]), (EDIT_TIME + number, EDIT_TIME + number))
    return lambda: write(original, (status.st_atime, status.st_mtime))


def in_child(recorder, watch, work):
    """Does `work` in a fork of this process, so that whatever it leaves behind is gone; waits for its end.

    A child that dies leaves its test without an end, which counts as a crash.
    """
    fork, leave, wait_for = os.fork, os._exit, os.waitpid
    sys.stdout.flush()
    sys.stderr.flush()
    child = fork()
    if child == 0:
        recorder.enter_child()
        watch.enter_child()
        try:
            work()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            leave(0)
    interruptible(wait_for, child, 0)
    recorder.leave_child()


def wait(child, reader, hard_limit_s, wall_s=None):
    """Returns the child's wait status and whether it was killed for overstepping a limit."""
    clock = getattr(time, "monotonic", time.time)
    end = None if wall_s is None else clock() + wall_s
    deadline = None
    watched = [reader]
    while True:
        ready = interruptible(select.select, watched, [], [], 0.1 if watched else 0.005)
        if ready and ready[0]:
            states = os.read(reader, 4096)
            if not states:
                watched = []
            deadline = clock() + hard_limit_s if states.endswith(b"1") else None
        else:
            done, status = interruptible(os.waitpid, child, os.WNOHANG) or (0, 0)
            if done:
                return status, False
        if not watched and end is None:
            # The child has ended, or closed the pipe; then only the sandbox's own limit is left.
            return os.waitpid(child, 0)[1], False
        if any(limit is not None and clock() > limit for limit in (deadline, end)):
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True


def interruptible(call, *arguments):
    """Calls; returns `None` where a signal interrupted the call (before Python 3.5)."""
    try:
        return call(*arguments)
    except (OSError, IOError, select.error) as error:
        if error.args[0] != errno.EINTR:
            raise
        return None


def frames(traceback, root):
    """Returns the traceback's entries inside the tree, innermost last, the middle of a long one left out."""
    prefix = root.rstrip("/") + "/"
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(prefix):
            path = code.co_filename[len(prefix) :]
            found.append({"path": text(path), "line": traceback.tb_lineno, "function": text(code.co_name)})
        traceback = traceback.tb_next
    if len(found) > FRAMES_HEAD + FRAMES_TAIL:
        found = found[:FRAMES_HEAD] + found[-FRAMES_TAIL:]
    return found


def failure_fields(error, traceback, root):
    """Returns the record fields that describe an exception."""
    found = frames(traceback, root)
    prefix = root.rstrip("/") + "/"
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(prefix):
        # The file that does not compile has no frame of its own.
        found.append({"path": text(error.filename[len(prefix) :]), "line": error.lineno or 1, "function": "<module>"})
    return {"exception": text(type(error).__name__), "message": describe(error), "frames": found}


def shuffled(tests, chain, seed):
    """Returns the tests in a seeded order that keeps the tests of a file, and of a class in it, together.

    `chain(test)` names the groups that hold the test, outermost first.
    """
    generator = random.Random(seed)

    def shuffle(members, depth):
        groups = {}
        order = []
        for member in members:
            names = chain(member)
            # A test that stands alone at this depth is a group of its own.
            key = names[depth] if depth < len(names) else (len(order),)
            if key not in groups:
                groups[key] = []
                order.append(key)
            groups[key].append(member)
        generator.shuffle(order)
        result = []
        for key in order:
            result.extend(groups[key] if isinstance(key, tuple) else shuffle(groups[key], depth + 1))
        return result

    return shuffle(list(tests), 0)


def chooser(selection, loose):
    """Returns a function that says whether a test id is selected."""
    wanted = set(selection["items"])
    prefixes = tuple(item + mark for item in wanted for mark in ("::", "[", ".")) if loose else ()
    return lambda test: test in wanted or test.startswith(prefixes)


class ImportedStub(AttributeError):
    """What a stub raises while modules are still being imported, so that `hasattr` and the like see nothing."""


class RunningStub(BaseException):
    """What a stub raises in a test. Not an `Exception`, so that no test expects it by accident."""


for _class in (ImportedStub, RunningStub):
    _class.__name__ = _class.__qualname__ = "Stub"

REFUSED = (
    "call iter next len bool nonzero getitem setitem delitem contains eq ne lt le gt ge add radd sub rsub mul rmul "
    "truediv rtruediv floordiv rfloordiv mod rmod divmod pow rpow matmul rmatmul and rand or ror xor rxor lshift "
    "rlshift rshift rrshift neg pos abs invert int float complex index round enter exit aenter aexit await aiter "
    "anext instancecheck subclasscheck mro_entries fspath format bytes reversed setattr delattr"
).split()


class Stubs(object):
    """Stands in for names that test files import from the tree and that are not there.

    A stub is bound in the importing file alone and raises on every use. Active only while `importing` is true.
    """

    def __init__(self, root, recorder):
        import builtins

        self._prefix = root.rstrip("/") + "/"
        self._recorder = recorder
        self._original = builtins.__import__
        self._names = set()
        self.importing = True
        self._class = self._make_class()
        builtins.__import__ = self._import

    def stop(self):
        """Ends the phase in which stubs are made; those that exist now raise `RunningStub`."""
        import builtins

        self.importing = False
        if builtins.__import__ == self._import:
            builtins.__import__ = self._original

    def _make_class(self):
        stubs = self

        def refuse(stub, *_arguments, **_options):
            raise stubs._error(object.__getattribute__(stub, "_stub"))

        def missing(stub, name):
            full = "%s.%s" % (object.__getattribute__(stub, "_stub"), name)
            # Runners and libraries probe for such names; nothing in a test depends on the answer.
            if name.startswith("__") or "pytest" in name:
                raise ImportedStub(full)
            raise stubs._error(full)

        def refuse_subclass(_class, *arguments):
            # `class A(stub)` before Python 3.7 calls the stub's type with a name, the bases and a namespace.
            bases = arguments[1] if len(arguments) > 1 else ()
            raise stubs._error(next((object.__getattribute__(base, "_stub") for base in bases), "base class"))

        members = {"__%s__" % name: refuse for name in REFUSED}
        members["__new__"] = refuse_subclass
        members["__getattr__"] = missing
        members["__hash__"] = object.__hash__
        members["__repr__"] = lambda stub: "<stub for %s>" % object.__getattribute__(stub, "_stub")
        return type("Stub", (object,), members)

    def _error(self, name):
        return (ImportedStub if self.importing else RunningStub)("%s does not exist" % name)

    def _stub(self, module, name):
        full = "%s.%s" % (module, name)
        self._note(full)
        stub = object.__new__(self._class)
        # `__name__` is what runners build parametrised ids from.
        for key, value in (("_stub", full), ("__name__", name), ("__qualname__", name), ("__module__", module)):
            object.__setattr__(stub, key, value)
        return stub

    def _note(self, full):
        if full not in self._names:
            self._names.add(full)
            self._recorder.write("stub", name=text(full))

    def _in_tree(self, module):
        places = [getattr(module, "__file__", None)] + list(getattr(module, "__path__", None) or [])
        place = next((place for place in places if place), None)
        return place is not None and place.startswith(self._prefix) and "/site-packages/" not in place

    def _is_test_file(self, path):
        if not isinstance(path, str) or not path.startswith(self._prefix):
            return False
        parts = path[len(self._prefix) :].split("/")
        name = parts[-1]
        if name.startswith("test") or name == "conftest.py" or name.endswith(("_test.py", "_tests.py")):
            return True
        return any(part in ("test", "tests", "testing") for part in parts[:-1])

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        importer = globals.get("__file__") if globals else None
        if not self.importing or not self._is_test_file(importer):
            return self._original(name, globals, locals, fromlist, level)
        try:
            module = self._original(name, globals, locals, fromlist, level)
        except ImportError as error:
            stand_in = self._for_missing_module(error, name, globals, fromlist, level)
            if stand_in is None:
                raise
            return stand_in
        missing = [wanted for wanted in fromlist or () if wanted != "*" and not self._has(module, wanted)]
        if not missing or not self._in_tree(module):
            return module
        found = {wanted: self._get(module, wanted) for wanted in fromlist if wanted != "*" and wanted not in missing}
        found.update((wanted, self._stub(module.__name__, wanted)) for wanted in missing)
        return self._stand_in(module.__name__, found)

    def _has(self, module, name):
        return hasattr(module, name) or "%s.%s" % (module.__name__, name) in sys.modules

    def _get(self, module, name):
        if hasattr(module, name):
            return getattr(module, name)
        return sys.modules["%s.%s" % (module.__name__, name)]

    def _stand_in(self, name, members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        return module

    def _for_missing_module(self, error, name, globals, fromlist, level):
        wanted = name
        if level:
            package = (globals.get("__package__") or globals.get("__name__", "")).split(".")
            wanted = ".".join(package[: len(package) - level + 1] + ([name] if name else []))
        absent = getattr(error, "name", None) or ""
        parent = sys.modules.get(absent.rpartition(".")[0])
        if not (wanted + ".").startswith(absent + ".") or parent is None or not self._in_tree(parent):
            return None
        if fromlist:
            if "*" in fromlist:
                return None
            return self._stand_in(wanted, {each: self._stub(wanted, each) for each in fromlist})
        self._note(wanted)
        return self._chain(wanted.split("."), absent)

    def _chain(self, parts, absent):
        """Returns a view of the top package that also has the missing module, for `import a.b.missing`."""
        stubs = self

        class MissingModule(types.ModuleType):
            def __getattr__(module, name):
                if name.startswith("_") or "pytest" in name:
                    raise ImportedStub("%s.%s" % (module.__name__, name))
                if not stubs.importing:
                    raise RunningStub("%s.%s does not exist" % (module.__name__, name))
                return stubs._stub(module.__name__, name)

        class View(types.ModuleType):
            def __getattr__(module, name):
                return getattr(sys.modules[module.__name__], name)

            def __setattr__(module, name, value):
                setattr(sys.modules[module.__name__], name, value)

            def __delattr__(module, name):
                delattr(sys.modules[module.__name__], name)

        below = None
        for depth in range(len(parts), 0, -1):
            full = ".".join(parts[:depth])
            is_missing = (full + ".").startswith(absent + ".")
            module = (MissingModule if is_missing else View)(full)
            if below is not None:
                module.__dict__[parts[depth]] = below
            below = module
        return below
