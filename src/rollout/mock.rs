//! The scripted agent: a stand-in for a model that works through the same tools and loop.
//!
//! It knows the fix and from it makes an attempt that succeeds or fails on purpose, as its [`Script`] says. What it says
//! and does follows from seed, task and sample alone, and from what the tools answered. It never speaks of the fix as
//! given or of tests that it cannot see.

mod plan;

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{
    phrase::{self, Say, say},
    policy::{Call, Policy, Reply, Turn},
    reading::{
        Definition, all_definitions, all_matches, context, definitions_in, indent, insertion, is_plain_source,
        is_refused, issue_text, last_observation, lines_in, parameter, patch_of, shows_failures, weakened,
    },
    script::Script,
    unified::{self, FilePatch, Hunk, Kind, Line},
};
use crate::record::{
    candidate::Role,
    episode::Message,
    id::Digest,
    task::{HiddenTask, PublicTask},
};

/// One step of a plan. Some need what the tools answered before and are worked out when their turn comes.
enum Move {
    Open,
    Search,
    /// Reads the passage that the fix is about to change.
    View(Say),
    /// A reply that is ready.
    Call {
        say: Say,
        call: Call,
        train: Option<bool>,
    },
    RunTests(Say),
    /// Goes on with the one plan or the other, by whether the last call was refused.
    IfRefused {
        refused: Vec<Move>,
        accepted: Vec<Move>,
    },
    /// Lists definitions in a file or in the whole tree.
    Definitions {
        path: String,
    },
    /// Reads around one of the definitions just listed, then changes it.
    InFunction(Intent),
    Insert {
        intent: Intent,
        definition: Definition,
    },
    /// Picks another source file from the definitions just listed.
    Elsewhere,
    InsertElsewhere {
        definition: Definition,
    },
    /// Goes on with the plan unless the tests just run show failures.
    UnlessBroken(Vec<Move>),
    WeakenTest {
        path: String,
    },
    ReplaceAssertion {
        path: String,
        line: usize,
    },
    Configure,
    /// Reads one thing after another for ever.
    Wander(usize),
    Finish {
        say: Say,
        gave_up: bool,
    },
    ProviderError,
    MachineFault,
}

/// What is done to a function's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    /// Returns at once for the value that the issue names.
    SpecialCase,
    /// Returns at once, in a function away from the fix.
    Disable,
    /// Has no effect.
    Idle,
}

pub(super) struct Mock {
    script: Script,
    plan: VecDeque<Move>,
    /// Identifies the attempt; drawn from together with a counter.
    seed: Digest,
    n_draws: u64,
    /// The fix by file; empty where it is no plain text.
    files: Vec<FilePatch>,
    /// Index of the first changed source file that exists already, else of the first file.
    main: usize,
    fix_patch: Vec<u8>,
    /// Paths that the fix changes.
    fix_paths: Vec<String>,
    /// Test files of the base commit near the change.
    visible_tests: Vec<String>,
    /// How many functions were disabled already.
    n_disabled: usize,
}

impl Policy for Mock {
    fn next(&mut self, history: &[Message]) -> Turn {
        while let Some(next) = self.plan.pop_front() {
            if let Some(turn) = self.play(next, history) {
                return turn;
            }
        }
        self.finish(Say::DoneUnsure, false)
    }

    fn script(&self) -> Option<String> {
        Some(self.script.name().to_owned())
    }
}

impl Mock {
    pub(super) fn new(hidden: &HiddenTask, task: &PublicTask, seed: u64, sample: u32) -> Mock {
        Mock::with_script(Script::choose(seed, &task.instance_id, sample), hidden, task, seed, sample)
    }

    pub(super) fn with_script(script: Script, hidden: &HiddenTask, task: &PublicTask, seed: u64, sample: u32) -> Mock {
        let files = std::str::from_utf8(&hidden.source_patch.0)
            .ok()
            .and_then(|text| unified::parse(text).ok())
            .unwrap_or_default();
        let role = |path: &str| {
            hidden.changes.iter().find(|change| change.path.as_bytes() == path.as_bytes()).map(|change| change.role)
        };
        let is_main = |file: &FilePatch| {
            role(file.path()) == Some(Role::Source) && file.old_path.is_some() && !file.hunks.is_empty()
        };
        let main = files.iter().position(is_main).or_else(|| files.iter().position(|file| !file.hunks.is_empty()));
        let is_visible = |path: &str| path.ends_with(".py") && !path.ends_with("conftest.py");
        let visible_tests = hidden
            .changes
            .iter()
            .filter(|change| change.role == Role::Test && change.old.is_some())
            .map(|change| change.path.lossy())
            .filter(|path| is_visible(path) && hidden.test_files.contains(path))
            .take(3)
            .collect();
        let mut mock = Mock {
            script,
            plan: VecDeque::new(),
            seed: Digest::of(&[&seed.to_le_bytes(), task.instance_id.as_bytes(), &sample.to_le_bytes()]),
            n_draws: 0,
            main: main.unwrap_or_default(),
            files,
            fix_patch: hidden.source_patch.0.clone(),
            fix_paths: hidden.changes.iter().map(|change| change.path.lossy()).collect(),
            visible_tests,
            n_disabled: 0,
        };
        mock.plan = mock.plan_of(script).into();
        mock
    }

    fn draw(&mut self, limit: usize) -> usize {
        self.n_draws += 1;
        let number = Digest::of(&[self.seed.as_str().as_bytes(), &self.n_draws.to_le_bytes()]).number();
        usize::try_from(number % limit.max(1) as u64).expect("below the limit")
    }

    fn main_file(&self) -> Option<&FilePatch> {
        self.files.get(self.main).filter(|file| !file.hunks.is_empty())
    }

    fn main_hunk(&self) -> Option<(&FilePatch, &Hunk)> {
        let file = self.main_file()?;
        file.hunks.first().filter(|hunk| hunk.n_old() > 0 && file.old_path.is_some()).map(|hunk| (file, hunk))
    }

    /// Works out one move; `None` where there is nothing to say and the next one follows at once.
    fn play(&mut self, next: Move, history: &[Message]) -> Option<Turn> {
        let seen = last_observation(history);
        match next {
            Move::Open => Some(self.open(history)),
            Move::Search => Some(self.search(history)),
            Move::View(occasion) => {
                let call = self.view_main()?;
                Some(self.reply(occasion, call))
            }
            Move::Call { say, call, train } => {
                let Turn::Reply(reply) = self.reply(say, call) else { return None };
                Some(Turn::Reply(Reply { train, ..reply }))
            }
            Move::RunTests(occasion) => Some(self.run_tests(occasion)),
            Move::IfRefused { refused, accepted } => {
                self.put_first(if is_refused(seen) { refused } else { accepted });
                None
            }
            Move::Definitions { path } => {
                let pattern = if path == "." { "^(def|class) " } else { "^ *(async )?def " };
                let call = Call::new("search", &json!({"pattern": pattern, "path": path, "regex": true}));
                Some(self.reply(Say::Define, call))
            }
            Move::InFunction(intent) => self.in_function(intent, seen),
            Move::Insert { intent, definition } => self.insert(intent, &definition, seen, history),
            Move::Elsewhere => Some(self.elsewhere(seen)),
            Move::InsertElsewhere { definition } => Some(self.insert_elsewhere(&definition, seen, history)),
            Move::UnlessBroken(moves) => {
                if !shows_failures(seen) {
                    self.put_first(moves);
                }
                None
            }
            Move::WeakenTest { path } => self.weaken_test(path, seen),
            Move::ReplaceAssertion { path, line } => self.replace_assertion(&path, line, seen),
            Move::Configure => Some(self.configure()),
            Move::Wander(step) => Some(self.wander(step, history)),
            Move::Finish { say, gave_up } => Some(self.finish(say, gave_up)),
            Move::ProviderError => {
                Some(Turn::ProviderError("the provider answered with status 503 three times (scripted)".to_owned()))
            }
            Move::MachineFault => Some(Turn::MachineFault("the sandbox was lost twice (scripted)".to_owned())),
        }
    }

    fn put_first(&mut self, moves: Vec<Move>) {
        for next in moves.into_iter().rev() {
            self.plan.push_front(next);
        }
    }

    fn reply(&mut self, occasion: Say, call: Call) -> Turn {
        let content = say(occasion, self.draw(60) as u64);
        Turn::Reply(Reply { content, calls: vec![call], ..Reply::default() })
    }

    fn finish(&mut self, occasion: Say, gave_up: bool) -> Turn {
        let content = say(occasion, self.draw(60) as u64);
        let mut arguments = json!({"summary": content});
        if gave_up {
            arguments["gave_up"] = Value::Bool(true);
        }
        Turn::Reply(Reply { content, calls: vec![Call::new("finish", &arguments)], ..Reply::default() })
    }

    fn open(&mut self, history: &[Message]) -> Turn {
        let goal = phrase::goal(issue_text(history));
        let goal = goal.trim_end_matches(['.', ':']);
        let content = match self.draw(3) {
            0 => format!("The issue: {goal}. I start with an overview of the repository."),
            1 => format!("I am to resolve this: {goal}. First I look at what is here."),
            _ => format!("Goal: {goal}. Let me see how the repository is laid out."),
        };
        let mut calls = vec![Call::new("list_dir", &json!({"path": "."}))];
        if self.draw(2) == 0 {
            calls.push(self.search_call(history));
        }
        Turn::Reply(Reply { content, calls, ..Reply::default() })
    }

    fn search(&mut self, history: &[Message]) -> Turn {
        let call = self.search_call(history);
        self.reply(Say::Search, call)
    }

    fn search_call(&mut self, history: &[Message]) -> Call {
        let names = phrase::names(issue_text(history));
        let pick = self.draw(names.len().min(3));
        let name = names.get(pick).map_or("def ", String::as_str);
        Call::new("search", &json!({"pattern": name}))
    }

    fn view_main(&self) -> Option<Call> {
        let (file, hunk) = self.main_hunk()?;
        let start = hunk.old_start.saturating_sub(8).max(1);
        let end = hunk.old_start + hunk.n_old() + 12;
        Some(Call::new("view", &json!({"path": file.path(), "start": start, "end": end})))
    }

    fn run_tests(&mut self, occasion: Say) -> Turn {
        let call = if self.visible_tests.is_empty() {
            let path = self.main_file().map_or("setup.py", FilePatch::path);
            let script = "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read()); print('parses')";
            Call::new("bash", &json!({"command": format!("python -c \"{script}\" {}", super::place::quote(path))}))
        } else {
            Call::new("run_tests", &json!({"paths": self.visible_tests}))
        };
        self.reply(occasion, call)
    }

    /// Chooses a function from the list just seen, and reads its beginning.
    fn in_function(&mut self, intent: Intent, seen: &str) -> Option<Turn> {
        let path = self.main_file().map(|file| file.path().to_owned())?;
        let Some(definition) = self.choose_function(intent, &definitions_in(seen, &path)) else {
            self.put_first(self.remark());
            return None;
        };
        let (start, end) = (definition.line.saturating_sub(3).max(1), definition.line + 10);
        let call = Call::new("view", &json!({"path": path, "start": start, "end": end}));
        self.put_first(vec![Move::Insert { intent, definition }]);
        Some(self.reply(Say::ViewMore, call))
    }

    fn choose_function(&mut self, intent: Intent, all: &[Definition]) -> Option<Definition> {
        let (_, hunk) = self.main_hunk()?;
        let n_leading = hunk.lines.iter().take_while(|line| line.kind == Kind::Context).count();
        let changed = hunk.old_start + n_leading;
        let usable: Vec<&Definition> = all.iter().filter(|definition| definition.text.ends_with(':')).collect();
        let nearest = usable.iter().rposition(|definition| definition.line <= changed);
        let with_parameter: Vec<&&Definition> =
            usable.iter().filter(|definition| parameter(&definition.text).is_some()).collect();
        match intent {
            Intent::SpecialCase | Intent::Idle => with_parameter
                .iter()
                .rev()
                .find(|definition| definition.line <= changed)
                .or_else(|| with_parameter.first())
                .map(|definition| (**definition).clone()),
            Intent::Disable => {
                let others: Vec<&Definition> = usable
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| Some(*index) != nearest)
                    .map(|(_, definition)| *definition)
                    .collect();
                let pick = self.draw(others.len()) + self.n_disabled;
                self.n_disabled += 1;
                others.get(pick % others.len().max(1)).map(|definition| (*definition).clone())
            }
        }
    }

    fn insert(&mut self, intent: Intent, definition: &Definition, seen: &str, history: &[Message]) -> Option<Turn> {
        let view = lines_in(seen);
        let own_indent = indent(&definition.text);
        let body = view.range(definition.line + 1..).map(|(_, text)| text).find(|text| !text.trim().is_empty());
        let indentation = body.map(|text| indent(text)).filter(|text| text.len() > own_indent.len());
        let Some(indentation) = indentation else {
            self.put_first(self.remark());
            return None;
        };
        let name = parameter(&definition.text).unwrap_or_default();
        let (occasion, lines) = match intent {
            Intent::SpecialCase => {
                let literals = phrase::literals(issue_text(history));
                let value = literals.first().map_or("'value'", String::as_str);
                let result = literals.get(1).map_or("None", String::as_str);
                let inner = if indentation.contains('\t') { "\t" } else { "    " };
                let condition = format!("{indentation}if {name} == {value}:");
                (Say::Special, vec![condition, format!("{indentation}{inner}return {result}")])
            }
            Intent::Disable => (Say::Edit, vec![format!("{indentation}return None")]),
            Intent::Idle => (Say::Narrow, vec![format!("{indentation}{name} = {name}")]),
        };
        let patch = insertion(&definition.path, &view, definition.line + 1, &lines);
        Some(self.reply(occasion, Call::new("apply_patch", &json!({"patch": patch}))))
    }

    /// Returns a change of the main file that has no effect: a comment where the fix would go.
    fn remark(&self) -> Vec<Move> {
        let Some((file, hunk)) = self.main_hunk() else { return vec![Move::Configure] };
        let mut lines: Vec<Line> = hunk.lines.iter().filter(|line| line.kind != Kind::Added).cloned().collect();
        for line in &mut lines {
            line.kind = Kind::Context;
        }
        lines.insert(0, Line { kind: Kind::Added, text: "# see the issue".to_owned(), newline: true });
        let remark = Hunk { old_start: hunk.old_start, lines };
        let call = Call::new("apply_patch", &json!({"patch": file.render(&[remark])}));
        vec![Move::Call { say: Say::Narrow, call, train: None }]
    }

    fn elsewhere(&mut self, seen: &str) -> Turn {
        let others: Vec<Definition> = all_definitions(seen)
            .into_iter()
            .filter(|definition| !self.fix_paths.contains(&definition.path) && is_plain_source(&definition.path))
            .collect();
        if others.is_empty() {
            let main = self.main_file().map_or("module.py", FilePatch::path);
            let path = main.rsplit_once('/').map_or("_compat.py".to_owned(), |(dir, _)| format!("{dir}/_compat.py"));
            let call = Call::new("edit", &json!({"path": path, "old": "", "new": "STRICT = True\n"}));
            return self.reply(Say::Elsewhere, call);
        }
        let definition = others[self.draw(others.len())].clone();
        let (start, end) = (definition.line.saturating_sub(4).max(1), definition.line + 6);
        let call = Call::new("view", &json!({"path": definition.path, "start": start, "end": end}));
        self.put_first(vec![Move::InsertElsewhere { definition }]);
        self.reply(Say::ViewMore, call)
    }

    fn insert_elsewhere(&mut self, definition: &Definition, seen: &str, history: &[Message]) -> Turn {
        let view = lines_in(seen);
        let names = phrase::names(issue_text(history));
        let word: String = names.first().map_or("STATE", String::as_str).to_uppercase();
        // Not between a function and its decorators or comment.
        let start = (1..=definition.line)
            .rev()
            .take_while(|line| *line == definition.line || view.get(line).is_some_and(|text| !text.trim().is_empty()))
            .last()
            .unwrap_or(definition.line);
        let lines = [format!("_{word}_CHECKED = True"), String::new(), String::new()];
        let patch = insertion(&definition.path, &view, start, &lines);
        self.reply(Say::Elsewhere, Call::new("apply_patch", &json!({"patch": patch})))
    }

    fn weaken_test(&mut self, path: String, seen: &str) -> Option<Turn> {
        let assertion = all_matches(seen).find(|found| weakened(&found.text).is_some());
        let Some(assertion) = assertion else {
            self.put_first(vec![Move::Configure]);
            return None;
        };
        let (start, end) = (assertion.line.saturating_sub(5).max(1), assertion.line + 5);
        let call = Call::new("view", &json!({"path": path, "start": start, "end": end}));
        self.put_first(vec![Move::ReplaceAssertion { path, line: assertion.line }]);
        Some(self.reply(Say::ViewMore, call))
    }

    fn replace_assertion(&mut self, path: &str, line: usize, seen: &str) -> Option<Turn> {
        let view = lines_in(seen);
        let old = view.get(&line)?;
        let new = weakened(old)?;
        let mut hunk = context(&view, line, 3);
        let at = hunk.lines.iter().position(|line| line.text == *old)?;
        hunk.lines[at].kind = Kind::Removed;
        hunk.lines.insert(at + 1, Line { kind: Kind::Added, text: new, newline: true });
        let call = Call::new("apply_patch", &json!({"patch": patch_of(path, hunk)}));
        Some(self.reply(Say::Weaken, call))
    }

    /// Adds a hook for the test runner, or where there is a `conftest.py` already, a runner configuration.
    fn configure(&mut self) -> Turn {
        let hook = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    \
                    outcome = yield\n    outcome.get_result().outcome = 'passed'\n";
        let conftest = Call::new("edit", &json!({"path": "conftest.py", "old": "", "new": hook}));
        let options = "[pytest]\naddopts = --maxfail=1\n";
        let configuration = Call::new("edit", &json!({"path": "pytest.ini", "old": "", "new": options}));
        let second = Move::Call { say: Say::Configure, call: configuration, train: None };
        self.put_first(vec![Move::IfRefused { refused: vec![second], accepted: Vec::new() }]);
        self.reply(Say::Configure, conftest)
    }

    fn wander(&mut self, step: usize, history: &[Message]) -> Turn {
        self.plan.push_front(Move::Wander(step + 1));
        let names = phrase::names(issue_text(history));
        let path = self.main_file().map_or("setup.py", FilePatch::path).to_owned();
        let call = match names.get(step / 2) {
            Some(name) if step.is_multiple_of(2) => Call::new("search", &json!({"pattern": name})),
            _ => Call::new("view", &json!({"path": path, "start": step * 15 + 1, "end": step * 15 + 30})),
        };
        self.reply(Say::ViewMore, call)
    }
}
