"""What a JavaScript repository's files and its `package.json` say about its tests. Runs nothing."""

import json
import os
import re
import shlex

SCRIPT_ENDINGS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
SKIPPED_DIRECTORIES = ("node_modules", ".git", "coverage", "bower_components")
# Programs whose failure says nothing about what the code does.
LINTERS = (
    "eslint xo standard prettier tslint tsd jshint jscs lint-staged flow dtslint attw publint knip markdownlint cspell "
    "commitlint biome oxlint stylelint dprint ls-lint depcheck size-limit bundlesize semistandard ts-standard "
    "template-oss-check markdownlint-cli2 npm-check audit-ci snyk vue-tsc nsp editorconfig-checker lint"
).split()
WORDS = {"node_test": "node", "jest": "jest", "vitest": "vitest", "mocha": "mocha", "ava": "ava", "tap": "tap"}


class Package(object):
    """The repository's `package.json`, and what its scripts say about how tests are run."""

    def __init__(self, root):
        self.root = root
        try:
            with open(os.path.join(root, "package.json"), encoding="utf-8") as handle:
                self.data = json.load(handle)
        except (OSError, ValueError):
            self.data = {}
        scripts = self.data.get("scripts") if isinstance(self.data, dict) else None
        self.scripts = {name: text for name, text in (scripts or {}).items() if isinstance(text, str)}

    def segments(self, script):
        """Returns the commands of a script as `(environment, words)`, those of scripts that it calls in their place."""
        found = []

        def visit(name, depth):
            for part in re.split(r"&&|\|\||;", self.scripts.get(name, "")):
                environment, words = parsed(part)
                inner = called_script(words)
                if inner is not None and depth < 8:
                    if inner in self.scripts:
                        for more in ("pre" + inner, inner):
                            visit(more, depth + 1)
                elif words:
                    found.append((environment, words))

        visit(script, 0)
        return found

    def command(self, runner):
        """Returns the environment and the arguments that the scripts start the runner with."""
        names = ["test"] + sorted(name for name in self.scripts if name != "test")
        names.sort(key=lambda name: (name != "test", not name.startswith(("test", "unit", runner))))
        for name in names:
            for environment, words in self.segments(name):
                at = runner_at(words, runner)
                if at is not None:
                    return environment, words[at + 1 :]
        return {}, []

    def preparations(self, runner):
        """Returns the commands that the scripts run before the tests, linters left out."""
        steps = self.segments("pretest")
        before = []
        for environment, words in self.segments("test"):
            if runner_at(words, runner) is not None:
                steps += before
                break
            before.append((environment, words))
        main = self.data.get("main")
        if isinstance(main, str) and self.lacks(main):
            for name in ("build", "compile", "prepare", "prepublish"):
                if name in self.scripts:
                    steps += self.segments(name)
                    break
        chosen = []
        for step in steps:
            if step not in chosen and not is_linter(step[1]):
                chosen.append(step)
        return chosen

    def lacks(self, entry):
        path = os.path.join(self.root, entry)
        return not any(os.path.exists(path + ending) for ending in ("", ".js", ".json", ".cjs", "/index.js"))


def parsed(command):
    """Returns the leading assignments of a shell command and its words; wrappers are dropped from the front."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    environment = {}
    while words:
        name, mark, value = words[0].partition("=")
        if mark and re.match(r"^[A-Za-z_]\w*$", name):
            environment[name] = value
        elif words[0] not in ("cross-env", "cross-env-shell", "env", "npx", "dotenv", "--"):
            break
        words = words[1:]
    return environment, words


def called_script(words):
    """Returns the script that a command runs through a package manager."""
    if len(words) > 1 and words[0] in ("npm", "yarn", "pnpm", "bun"):
        if words[1] in ("run", "run-script") and len(words) > 2:
            names = [word for word in words[2:] if not word.startswith("-")]
            return names[0] if names else None
        if words[1] in ("test", "t", "tst"):
            return "test"
        if words[0] != "npm" and not words[1].startswith("-"):
            return words[1]
    return None


def runner_at(words, runner):
    """Returns where in a command the runner's name is, wrappers such as `nyc` and `c8` before it."""
    for at, word in enumerate(words):
        name = os.path.basename(word)
        if name in (WORDS[runner], "_mocha" if runner == "mocha" else WORDS[runner], WORDS[runner] + ".js"):
            if runner != "node_test" or "--test" in words:
                return at
        if runner == "node_test" and name in ("tsx", "borp", "ts-node") and "--test" in words:
            return at
    return None


def is_linter(words):
    name = os.path.basename(words[0])
    if name in ("npm", "yarn", "pnpm", "bun"):
        return True
    texts = " ".join(words)
    return name in LINTERS or "lint" in name or (name == "tsc" and "--noEmit" in texts)


def tree_files(root):
    """Returns the tree's files, relative and sorted, without what is installed."""
    found = []
    for directory, directories, files in os.walk(root):
        directories[:] = sorted(name for name in directories if name not in SKIPPED_DIRECTORIES)
        base = os.path.relpath(directory, root)
        for name in files:
            found.append(name if base == "." else base + "/" + name)
    return sorted(found)


def glob_expression(pattern):
    """Returns a glob (`**`, `*`, `?`, `{a,b}`, `+(a|b)`, `[a-z]`) as a regular expression."""
    out, at, depth, groups = [], 0, 0, []
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            out.append(r"(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char in "?*+@!" and pattern[at + 1 : at + 2] == "(":
            out.append("(?:")
            groups.append({"?": ")?", "*": ")*", "+": ")+", "@": ")", "!": ")"}[char])
            at += 2
            continue
        if char == ")" and groups:
            out.append(groups.pop())
        elif char == "|" and groups:
            out.append("|")
        elif char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "{":
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "[" and "]" in pattern[at:]:
            end = pattern.index("]", at)
            out.append(pattern[at : end + 1])
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    try:
        return re.compile("".join(out) + r"\Z")
    except re.error:
        return re.compile(re.escape(pattern) + r"\Z")


def expand(patterns, files, in_directory=None):
    """Returns the files that globs, names and directories stand for; `!` takes away."""
    chosen = []
    for pattern in patterns:
        negated = pattern.startswith("!")
        pattern = pattern.lstrip("!").rstrip("/")
        pattern = pattern[2:] if pattern.startswith("./") else pattern
        expression = glob_expression(pattern)
        hits = [path for path in files if expression.match(path)]
        if not hits and in_directory is not None:
            hits = [path for path in files if path.startswith(pattern + "/") and in_directory(path, pattern)]
        if negated:
            chosen = [path for path in chosen if path not in hits]
        else:
            chosen += [path for path in hits if path not in chosen]
    return chosen


def uses(root, file, module):
    """Says whether a file names a module, as test files name their library."""
    try:
        with open(os.path.join(root, file), encoding="utf-8", errors="replace") as handle:
            text = handle.read()
    except OSError:
        return False
    return re.search(r"""['"](?:node:)?%s(?:/[\w./-]+)?['"]""" % re.escape(module), text) is not None
