"""Runs pytest for curate and reports over the result channel. For pytest 3 and later.

Printed text is not involved. What the repository's own configuration says about which files, classes and functions
are tests, about markers and warnings is kept; of `addopts` only what decides what is a test, and whether and under
which name it can be imported. A plugin of ours watches the raw exception of each phase next to the report that other
plugins make of it: a report that says `passed` over an exception does not count. A test of ours in each module must
fail: where it passes, bodies of tests do not run.
"""

import gc
import sys

# Nothing that the imports below make is garbage; looking for some takes nearly half of their time.
gc.disable()

# Options in `addopts` that are kept: how many further words each takes when its value is not attached by `=`.
KEPT_OPTIONS = {
    "-p": 1,
    "-W": 1,
    "--pythonwarnings": 1,
    "--import-mode": 1,
    "--asyncio-mode": 1,
    "--ignore": 1,
    "--ignore-glob": 1,
    "--confcutdir": 1,
    "-o": 1,
    "--override-ini": 1,
    "--ds": 1,
    "--dc": 1,
    "--no-migrations": 0,
    "--nomigrations": 0,
    "--create-db": 0,
    "--doctest-modules": 0,
    "--doctest-glob": 1,
    "--doctest-continue-on-failure": 0,
    "--doctest-ignore-import-errors": 0,
}
# Kept only when everything is run: what the repository leaves out of a plain run.
KEPT_FOR_ALL = {"-m": 1, "--deselect": 1}
# Plugins that reorder tests.
BLOCKED = ("randomly", "random_order", "random-order", "reverse", "reorder")
# Where a plain run looks for its configuration, with the sections that make a file count ("" = always).
CONFIGURATIONS = (
    ("pytest.toml", ("",)),
    (".pytest.toml", ("",)),
    ("pytest.ini", ("",)),
    (".pytest.ini", ("",)),
    ("pyproject.toml", ("[tool.pytest.ini_options]", "[tool.pytest]")),
    ("tox.ini", ("[pytest]",)),
    ("setup.cfg", ("[tool:pytest]",)),
)
# Names that count as test files besides the repository's `python_files`.
ALWAYS_TESTS = ("tests.py", "test.py")


def kept_options(words, run_all):
    """Returns the options of `addopts` that stay in force."""
    kept = dict(KEPT_OPTIONS, **KEPT_FOR_ALL) if run_all else KEPT_OPTIONS
    result = []
    words = list(words)
    while words:
        word = words.pop(0)
        name = word.split("=", 1)[0] if word.startswith("--") else word[:2]
        if name not in kept:
            continue
        option = [word]
        if word == name and kept[name]:
            option += words[: kept[name]]
            del words[: kept[name]]
        if name != "-p" or is_plugin("".join(option)[2:].strip()):
            result += option
    return result


def is_plugin(name):
    """Says whether a plugin is there: what only measures coverage or formats output is not installed."""
    if name.startswith("no:") or sys.version_info < (3, 8):
        return True
    from importlib import metadata, util

    points = (point for package in metadata.distributions() for point in package.entry_points)
    if any(point.group == "pytest11" and point.name == name for point in points):
        return True
    try:
        return any(util.find_spec(module) is not None for module in (name, "_pytest." + name))
    except ImportError:
        return False


def configuration(root, version):
    """Returns the configuration file that a plain run in `root` uses, or `None`."""
    import os

    for name, sections in CONFIGURATIONS:
        path = os.path.join(root, name)
        if not os.path.isfile(path):
            continue
        if name.endswith("pytest.toml") and version < (9,) or name == ".pytest.ini" and version < (6,):
            continue
        if name == "pyproject.toml" and version < (6,):
            continue
        with open(path, "rb") as handle:
            lines = [line.strip() for line in handle.read().decode("utf-8", "replace").splitlines()]
        if any(not section or any(line.startswith(section) for line in lines) for section in sections):
            return path
    return None


def is_everything(selection):
    """Says whether all tests are looked for: to be run, or none of them where only what they import is of interest."""
    return selection["kind"] == "all" or selection["kind"] == "tests" and not selection["items"]


def exception_kind(error):
    """Returns what an exception means to pytest: `skipped`, `xfailed` or `failed`."""
    names = [base.__name__ for base in type(error).__mro__]
    if "Skipped" in names or "SkipTest" in names:
        return "skipped"
    return "xfailed" if "XFailed" in names else "failed"


def report_outcome(report):
    if report.outcome == "passed":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    # Also `rerun`: a test that needs a second try has failed.
    return "failed"


def report_message(report):
    """Returns what a report says, as an object whose text form it is."""
    representation = report.longrepr
    if isinstance(representation, tuple) and len(representation) == 3:
        return representation[2]
    crash = getattr(representation, "reprcrash", None)
    if crash is not None:
        return crash.message
    return "" if representation is None else representation


def failing(name, module):
    """Returns a function that raises, made like those of a test module."""
    import types

    path = str(getattr(module, "path", None) or module.fspath)
    code = compile("def %s(self=None):\n    raise AssertionError" % name, path, "exec")
    body = next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return types.FunctionType(body, module.obj.__dict__, name, (None,))


def add_decoys(pytest, items):
    """Puts a test that must fail behind the last test of each module and kind; returns them.

    What keeps the bodies of tests from running keeps theirs from it too. None before pytest 5.4.
    """
    import os
    import unittest

    from _pytest.unittest import TestCaseFunction, UnitTestCase

    if not hasattr(pytest.Function, "from_parent"):
        return []
    last = {}
    for item in items:
        if isinstance(item, pytest.Function):
            last[item.getparent(pytest.Module), isinstance(item, TestCaseFunction)] = item
    decoys = []
    for (module, is_case), item in last.items():
        name = "test_" + "".join(chr(97 + byte % 26) for byte in bytearray(os.urandom(6)))
        function = failing(name, module)
        if is_case:
            case = type(name.title().replace("_", ""), (unittest.TestCase,), {name: function})
            case.__module__ = module.obj.__name__
            collector = UnitTestCase.from_parent(module, name=case.__name__)
            collector.obj = case
            added = list(collector.collect())
        else:
            added = [pytest.Function.from_parent(module, name=name, callobj=function)]
        place = items.index(item) + 1
        items[place:place] = added
        decoys += added
    return decoys


def make_plugins(pytest, channel, plan, recorder, watch, stubs):
    root = plan["root"]
    selection = plan["selection"]
    wrapper = pytest.hookimpl(hookwrapper=True)
    first = pytest.hookimpl(tryfirst=True)
    last = pytest.hookimpl(trylast=True)
    # Nearest to the test itself, so that no other plugin can swallow the exception before us.
    innermost = pytest.hookimpl(hookwrapper=True, trylast=True)
    outermost = pytest.hookimpl(hookwrapper=True, tryfirst=True)

    def test_id(node):
        # pytest before version 4 names the instance of a test's class too.
        return channel.text(node.nodeid).replace("::()", "")

    class Phase(object):
        """What was seen of one phase of the running test."""

        def __init__(self, kind, fields, timed_out):
            self.kind = kind
            self.fields = fields
            self.timed_out = timed_out

    class Plugin(object):
        def __init__(self):
            self.phases = {}
            self.running = None
            self.decoys = set()
            self.n_collected = 0
            self.finished = False

        # Configuration and collection

        @first
        def pytest_load_initial_conftests(self):
            # From here on code of the repository runs, as it would anywhere else.
            if hasattr(gc, "freeze"):
                gc.freeze()
            gc.enable()

        @first
        def pytest_configure(self, config):
            if not is_everything(selection):
                config.args[:] = [path for path in plan["paths"] if self.is_test_file(config, path)]
            if hasattr(config.option, "hypothesis_seed") and config.option.hypothesis_seed is None:
                config.option.hypothesis_seed = str(plan["hash_seed"])

        def is_test_file(self, config, path):
            import fnmatch
            import os

            if os.path.isdir(path):
                return True
            name = path.rsplit("/", 1)[-1]
            for pattern in list(config.getini("python_files")) + list(ALWAYS_TESTS):
                if "/" in pattern and fnmatch.fnmatch(path, "*/" + pattern) or fnmatch.fnmatch(name, pattern):
                    return True
            return False

        @last
        def pytest_sessionstart(self, session):
            import os

            recorder.write("start", pid=os.getpid())

        @outermost
        def pytest_make_collect_report(self, collector):
            is_module = isinstance(collector, pytest.Module)
            if is_module:
                watch.arm()
            outcome = yield
            timed_out = watch.disarm() if is_module else False
            report = outcome.get_result()
            if report.failed or timed_out:
                self.collection_error(collector, report)

        def collection_error(self, collector, report):
            call = getattr(report, "call", None)
            error = call.excinfo.value if call is not None and call.excinfo is not None else None
            # pytest wraps import and syntax errors in one of its own that carries printed text.
            while type(error).__name__ == "CollectError":
                cause = getattr(error, "__cause__", None) or getattr(error, "__context__", None)
                if cause is None:
                    break
                error = cause
            fields = {"exception": None, "message": channel.describe(report_message(report)), "frames": []}
            if error is not None:
                traceback = getattr(error, "__traceback__", None) or call.excinfo.tb
                fields = channel.failure_fields(error, traceback, root)
            recorder.write("collection_error", file=channel.text(collector.nodeid.split("::")[0] or "."), **fields)

        @outermost
        def pytest_collection_modifyitems(self, session, config, items):
            yield
            if selection["kind"] == "tests":
                is_chosen = channel.chooser(selection, plan["loose"])
                chosen = [item for item in items if is_chosen(test_id(item))]
                left = [item for item in items if not is_chosen(test_id(item))]
                items[:] = chosen
                if left:
                    config.hook.pytest_deselected(items=left)
            if plan["order_seed"] is not None:
                items[:] = channel.shuffled(items, self.groups, plan["order_seed"])
            if not plan["alone"]:
                self.decoys = set(add_decoys(pytest, items))

        def groups(self, item):
            return test_id(item).split("[")[0].split("::")[:-1] or [test_id(item)]

        @last
        def pytest_collection_finish(self, session):
            if stubs is not None:
                stubs.stop()
            ids = [test_id(item) for item in session.items if item not in self.decoys]
            self.n_collected = len(set(ids))
            recorder.write_collected(ids)

        # One test

        @first
        def pytest_runtestloop(self, session):
            if not plan["alone"]:
                return None
            for item in session.items:
                run = item.config.hook.pytest_runtest_protocol
                channel.in_child(recorder, watch, lambda: run(item=item, nextitem=None))
            return True

        @outermost
        def pytest_runtest_protocol(self, item, nextitem):
            if item in self.decoys:
                yield
                return
            self.phases = {}
            self.running = test_id(item)
            channel.seed_random(plan)
            recorder.write("test_start", id=self.running)
            began = watch.clock()
            outcome = yield
            # Exceptions that no report spoke of; then the session itself is ending.
            for when, phase in sorted(self.phases.items()):
                if phase.kind == "failed" or phase.timed_out:
                    self.result(when, "timed_out" if phase.timed_out else "failed", phase.fields)
            if outcome.excinfo is None:
                recorder.write("test_end", id=self.running, ms=int((watch.clock() - began) * 1000))
            self.running = None

        def run_decoy(self, item, nextitem):
            from _pytest import runner

            self.phases = {}
            runner.runtestprotocol(item, log=False, nextitem=nextitem)
            phases = [self.phases.pop(when, None) for when in ("setup", "call")]
            self.phases = {}
            if all(phase is not None and phase.kind == "passed" for phase in phases):
                recorder.write("decoy_passed", file=channel.text(item.nodeid.split("::")[0]))
            return True

        @innermost
        def pytest_runtest_setup(self, item):
            watch.arm()
            outcome = yield
            self.observe(item, "setup", outcome)

        @innermost
        def pytest_runtest_call(self, item):
            watch.arm()
            outcome = yield
            self.observe(item, "call", outcome)

        @innermost
        def pytest_runtest_teardown(self, item, nextitem):
            watch.arm()
            outcome = yield
            self.observe(item, "teardown", outcome)

        def observe(self, item, when, outcome):
            timed_out = watch.disarm()
            raised = outcome.excinfo
            # For `unittest` test cases pytest itself collects the exceptions on the side.
            aside = getattr(item, "_excinfo", None)
            if raised is None and aside:
                raised = aside[0].type, aside[0].value, aside[0].tb
            if raised is None:
                self.phases[when] = Phase("passed", {}, timed_out)
                return
            error = raised[1]
            fields = channel.failure_fields(error, raised[2], root)
            # pytest-timeout fails a test with such a text.
            if fields["message"].startswith(("Timeout >", "Timeout (>")) and "pytest_timeout" in sys.modules:
                timed_out = True
            self.phases[when] = Phase(exception_kind(error), fields, timed_out)

        @outermost
        def pytest_runtest_logreport(self, report):
            if self.running is not None and test_id(report) == self.running:
                self.judge(report)
            yield

        def judge(self, report):
            outcome = report_outcome(report)
            described = {"exception": None, "message": channel.describe(report_message(report)), "frames": []}
            # Reports of subtests come while the test itself is still running.
            is_subtest = type(report).__name__.lower().startswith("subtest")
            if is_subtest:
                if outcome != "passed":
                    described["exception"] = described["message"].split(":")[0].strip() or None
                    self.result("call", outcome, described)
                return
            phase = self.phases.pop(report.when, None)
            if phase is None:
                if outcome == "passed":
                    outcome = "failed"
                    described["message"] = "reported as passed, but it did not run"
                self.result(report.when, outcome, described)
                return
            if phase.timed_out:
                outcome = "timed_out"
            elif outcome in ("passed", "xpassed") and phase.kind != "passed":
                outcome = phase.kind
            self.result(report.when, outcome, phase.fields or described)

        def result(self, when, outcome, fields):
            if outcome == "passed":
                if when != "call":
                    return
                fields = {}
            recorder.write("result", id=self.running, when=when, outcome=outcome, **fields)

        # The end

        @outermost
        def pytest_sessionfinish(self, session, exitstatus):
            self.finish(exitstatus)
            yield

        def finish(self, exitstatus):
            if not self.finished:
                self.finished = True
                recorder.write("finish", n_collected=self.n_collected, exitstatus=int(exitstatus))

    plugin = Plugin()

    class DecoyRunner(object):
        @first
        def pytest_runtest_protocol(self, item, nextitem):
            return plugin.run_decoy(item, nextitem) if item in plugin.decoys else None

    return [plugin, DecoyRunner()]


def replace_settings(plan):
    """Makes pytest see our `addopts` and cache directory, in whatever file and format its configuration is."""
    import tempfile

    from _pytest.config import Config

    original = Config.getini
    run_all = plan["selection"]["kind"] == "all"
    cache = tempfile.gettempdir() + "/pytest-cache"

    def getini(self, name, *arguments, **options):
        if name == "addopts":
            return kept_options(original(self, name, *arguments, **options), run_all)
        if name == "cache_dir":
            return cache
        return original(self, name, *arguments, **options)

    Config.getini = getini


def arguments(plan, version):
    import os

    root = plan["root"]
    words = ["-q", "--tb=short", "--continue-on-collection-errors"]
    for name in BLOCKED:
        words += ["-p", "no:" + name]
    if version >= (3, 5):
        words.append("--rootdir=" + root)
        path = configuration(root, version)
        if path is not None:
            words += ["-c", path]
    if is_everything(plan["selection"]):
        return words
    # Ids are `file::rest`; the plugin picks the exact ones, since not every id can be given as an argument.
    files = []
    for item in plan["selection"]["items"]:
        path = os.path.join(root, item.split("::")[0])
        if path not in files and os.path.exists(path):
            files.append(path)
    plan["paths"] = files
    return words + (files or [root])


def share_rewritten(channel, root):
    """Does for test modules, which pytest compiles itself, what `share_bytecode` does for others."""
    from _pytest.assertion import rewrite

    original = getattr(rewrite, "get_cache_dir", None)
    if original is not None:
        rewrite.get_cache_dir = lambda path: type(path)(channel.bytecode_place(root, str(original(path))))


def load():
    """Imports pytest with its own plugins."""
    from _pytest import config

    for name in config.default_plugins:
        __import__("_pytest." + name)


def main():
    import os

    import curate_channel as channel

    if sys.argv[1] == "--preload":
        known = set(sys.modules)
        import curate_preload

        curate_preload.serve(int(sys.argv[2]), sys.argv[3], load, known)
    plan, recorder, watch = channel.begin(sys.argv[1], load)
    del sys.path[0], sys.modules["curate_channel"]
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    stubs = channel.Stubs(plan["root"], recorder) if plan["stubs"] and sys.version_info[0] > 2 else None

    import pytest

    if channel.share_bytecode(plan["root"]):
        share_rewritten(channel, plan["root"])
    version = tuple(int(part) for part in pytest.__version__.split(".")[:2] if part.isdigit())
    words = arguments(plan, version)
    replace_settings(plan)
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "pytest")] + words
    code = pytest.main(words, plugins=make_plugins(pytest, channel, plan, recorder, watch, stubs))
    sys.exit(int(code))


if __name__ == "__main__":
    main()
