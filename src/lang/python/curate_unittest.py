"""Runs `unittest` tests for curate and reports over the result channel.

Finds test files by name, as `python -m unittest discover` does, but imports each on its own, under the name that its
packages give it, so that one file that cannot be imported costs only its own tests. Ids are `module.Class.method`;
docstrings never become ids.
"""

import os
import sys
import unittest

TEST_DIRECTORIES = ("tests", "test")
SKIPPED_DIRECTORIES = ("build", "dist", "node_modules", "venv", "env", "__pycache__")


def is_test_name(name):
    return name.endswith(".py") and (name.startswith("test") or name.endswith(("_test.py", "_tests.py")))


def test_files(directory, packages_only):
    """Returns the test files below a directory, sorted."""
    found = []
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            if is_test_name(name):
                found.append(path)
        elif os.path.isdir(path) and not os.path.islink(path) and not name.startswith("."):
            if name in SKIPPED_DIRECTORIES or name.endswith(".egg-info"):
                continue
            is_package = os.path.isfile(os.path.join(path, "__init__.py"))
            if not packages_only or is_package or name in TEST_DIRECTORIES + ("src",):
                found.extend(test_files(path, packages_only))
    return found


def every_file(root):
    """Returns the files of a plain run: those of the top-level test directories, else all in packages."""
    found = []
    for name in TEST_DIRECTORIES:
        if os.path.isdir(os.path.join(root, name)):
            found.extend(test_files(os.path.join(root, name), False))
    return found or test_files(root, True)


def module_name(path):
    """Returns the directory that must be importable and the dotted name, as the `__init__.py` files around say."""
    directory, name = os.path.split(path)
    parts = [name[: -len(".py")]]
    if parts == ["__init__"]:
        parts = []
    while os.path.isfile(os.path.join(directory, "__init__.py")):
        directory, package = os.path.split(directory)
        parts.insert(0, package)
    return directory, ".".join(parts)


def selected_files(root, selection):
    if selection["kind"] == "all":
        return every_file(root)
    if selection["kind"] == "files":
        files = []
        for path in [os.path.join(root, item) for item in selection["items"]]:
            if os.path.isdir(path):
                files.extend(test_files(path, False))
            elif os.path.isfile(path) and path.endswith(".py"):
                files.append(path)
        return files
    files = []
    for path in every_file(root) + test_files(root, False):
        name = module_name(path)[1]
        if path not in files and any((item + ".").startswith(name + ".") for item in selection["items"]):
            files.append(path)
    return files


def flattened(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            for inner in flattened(test):
                yield inner
        else:
            yield test


class Reporter(unittest.TestResult):
    """Turns what happens into records."""

    def __init__(self, channel, recorder, watch, plan, tests):
        unittest.TestResult.__init__(self)
        self.channel, self.recorder, self.watch, self.plan = channel, recorder, watch, plan
        self.root = plan["root"]
        self.selected = [test.id() for test in tests]
        self.running = None
        self.has_result = False

    def startTest(self, test):
        unittest.TestResult.startTest(self, test)
        self.running = test
        self.has_result = False
        self.channel.seed_random(self.plan)
        self.recorder.write("test_start", id=self.channel.text(test.id()))
        self.began = self.watch.clock()
        self.watch.arm()

    def stopTest(self, test):
        unittest.TestResult.stopTest(self, test)
        if self.watch.disarm():
            self.record(test, "call", "timed_out", exception="Timeout", message="", frames=[])
        # Test cases that report nothing (before Python 3.4, a subtest's failure only) have not passed.
        ms = int((self.watch.clock() - self.began) * 1000)
        self.recorder.write("test_end", id=self.channel.text(test.id()), ms=ms)
        self.running = None

    def record(self, test, when, outcome, **fields):
        self.has_result = True
        for name in self.ids(test):
            self.recorder.write("result", id=self.channel.text(name), when=when, outcome=outcome, **fields)

    def ids(self, test):
        """Returns the ids that a report concerns: for class and module fixtures, all tests under them."""
        if self.running is not None or not hasattr(test, "description"):
            return [getattr(test, "test_case", test).id()]
        # `setUpClass (tests.test_mod.Class)`, from the suite's stand-in for a fixture
        scope = test.id().partition("(")[2].rstrip(")")
        return [name for name in self.selected if scope and name.startswith(scope + ".")]

    def failed(self, test, error):
        kind, value, traceback = error
        when = self.phase(traceback) if self.running is not None else "setup"
        self.record(test, when, "failed", **self.channel.failure_fields(value, traceback, self.root))

    def phase(self, traceback):
        """Returns the phase that an exception came from, by the functions that `unittest` called first."""
        machinery = os.path.dirname(unittest.__file__)
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_name in ("doCleanups", "_callCleanup", "_callTearDown"):
                return "teardown"
            if code.co_name == "_callSetUp":
                return "setup"
            if os.path.dirname(code.co_filename) != machinery:
                phases = {"setUp": "setup", "asyncSetUp": "setup", "tearDown": "teardown", "asyncTearDown": "teardown"}
                return phases.get(code.co_name, "call")
            traceback = traceback.tb_next
        return "call"

    def addSuccess(self, test):
        self.record(test, "call", "passed")

    def addError(self, test, err):
        self.failed(test, err)

    def addFailure(self, test, err):
        self.failed(test, err)

    def addSkip(self, test, reason):
        self.record(test, "call", "skipped", exception="SkipTest", message=self.channel.shortened(reason), frames=[])

    def addExpectedFailure(self, test, err):
        fields = self.channel.failure_fields(err[1], err[2], self.root)
        self.record(test, "call", "xfailed", **fields)

    def addUnexpectedSuccess(self, test):
        self.record(test, "call", "failed", exception=None, message="unexpected success", frames=[])

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(test, err)


def load(path, loader, channel, recorder, watch, root):
    """Imports one file and returns its tests; what goes wrong is recorded."""
    directory, name = module_name(path)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    watch.arm()
    try:
        module = __import__(name, None, None, ["*"])
        actual = os.path.realpath(getattr(module, "__file__", "") or "")
        if actual.replace(".pyc", ".py") != os.path.realpath(path):
            raise ImportError("`%s` is already imported from `%s`" % (name, actual))
        tests = list(flattened(loader.loadTestsFromModule(module)))
    except unittest.SkipTest:
        return []
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        fields = channel.failure_fields(error, sys.exc_info()[2], root)
        recorder.write("collection_error", file=channel.text(os.path.relpath(path, root)), **fields)
        return []
    finally:
        watch.disarm()
    return tests


def failed_loads(tests, path, root, channel, recorder):
    """Returns the tests that are real, and records the stand-ins that the loader makes of a failed `load_tests`."""
    real = []
    for test in tests:
        if type(test).__name__ in ("_FailedTest", "ModuleImportFailure", "LoadTestsFailure"):
            error = getattr(test, "_exception", None)
            fields = channel.failure_fields(error, getattr(error, "__traceback__", None), root)
            recorder.write("collection_error", file=channel.text(os.path.relpath(path, root)), **fields)
        else:
            real.append(test)
    return real


def main():
    import warnings

    import curate_channel as channel

    plan, recorder, watch = channel.begin(sys.argv[1], lambda: None)
    del sys.path[0], sys.modules["curate_channel"]
    root, selection = plan["root"], plan["selection"]
    if "" not in sys.path and root not in sys.path:
        sys.path.insert(0, root)
    sys.argv[:] = ["python -m unittest"]
    if not sys.warnoptions:
        warnings.simplefilter("default")
    stubs = channel.Stubs(root, recorder) if plan["stubs"] and sys.version_info[0] > 2 else None

    recorder.write("start", pid=os.getpid())
    loader = unittest.TestLoader()
    tests, seen = [], set()
    for path in selected_files(root, selection):
        loaded = load(path, loader, channel, recorder, watch, root)
        for test in failed_loads(loaded, path, root, channel, recorder):
            # A file may import the test classes of another.
            if test.id() not in seen:
                seen.add(test.id())
                tests.append(test)
    if stubs is not None:
        stubs.stop()
    if selection["kind"] == "tests":
        is_chosen = channel.chooser(selection, plan["loose"])
        tests = [test for test in tests if is_chosen(channel.text(test.id()))]
    if plan["order_seed"] is not None:
        tests = channel.shuffled(tests, lambda test: test.id().rsplit(".", 2)[:2], plan["order_seed"])
    recorder.write_collected([test.id() for test in tests])

    reporter = Reporter(channel, recorder, watch, plan, list(tests))
    if plan["alone"]:
        for test in tests:
            channel.in_child(recorder, watch, lambda: unittest.TestSuite([test]).run(reporter))
    else:
        unittest.TestSuite(tests).run(reporter)
        if decoy_passes():
            recorder.write("decoy_passed", file=".")
    recorder.write("finish", n_collected=len(tests), exitstatus=0)


def decoy_passes():
    """Runs a test that must fail; says whether something kept its body from running."""

    class TestOne(unittest.TestCase):
        def test_one(self):
            raise AssertionError

    result = unittest.TestResult()
    unittest.TestSuite([TestOne("test_one")]).run(result)
    return result.wasSuccessful()


if __name__ == "__main__":
    main()
