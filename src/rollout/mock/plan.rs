//! The plans: which moves a script is made of.

use serde_json::json;

use super::{Intent, Mock, Move};
use crate::rollout::{
    phrase::Say,
    policy::{Call, fix_calls},
    script::Script,
    unified::{FilePatch, Hunk, Kind, Line},
};

impl Mock {
    pub(super) fn plan_of(&mut self, script: Script) -> Vec<Move> {
        let mut plan = self.explore();
        let done = Move::Finish { say: Say::Done, gave_up: false };
        let unsure = || Move::Finish { say: Say::DoneUnsure, gave_up: false };
        match script {
            Script::Fix => plan.extend(self.fix().into_iter().chain([Move::RunTests(Say::Test), done])),
            Script::FixAfterStalePatch => {
                plan.extend(self.stale());
                plan.extend(self.fix().into_iter().chain([Move::RunTests(Say::Test), done]));
            }
            Script::FixAfterWrongEdit => {
                plan.extend(self.fix_after_wrong_edit());
                plan.extend([Move::RunTests(Say::TestAgain), done]);
            }
            Script::WrongFile => {
                plan.extend([Move::Definitions { path: ".".to_owned() }, Move::Elsewhere, unsure()]);
            }
            Script::Overfit => plan.extend([self.definitions(), Move::InFunction(Intent::SpecialCase), unsure()]),
            Script::Regression => {
                plan.extend(self.fix());
                plan.extend([self.definitions(), Move::InFunction(Intent::Disable), Move::RunTests(Say::Test)]);
                let again = vec![self.definitions(), Move::InFunction(Intent::Disable)];
                plan.extend([Move::UnlessBroken(again), unsure()]);
            }
            Script::IncorrectFix => plan.extend([self.definitions(), Move::InFunction(Intent::Idle), unsure()]),
            Script::GivesUp => {
                plan.extend([Move::RunTests(Say::Test), Move::Finish { say: Say::GiveUp, gave_up: true }]);
            }
            Script::BrokenPatch => plan.extend(self.half_merged().into_iter().chain([unsure()])),
            Script::ExhaustBudget => plan.push(Move::Wander(0)),
            Script::EditTests => plan.extend(self.edit_tests().into_iter().chain([unsure()])),
            Script::NoChange => plan.push(Move::Finish { say: Say::Nothing, gave_up: false }),
            Script::ProviderError => plan.push(Move::ProviderError),
            Script::LoseSandbox => plan.push(Move::MachineFault),
        }
        plan
    }

    fn explore(&mut self) -> Vec<Move> {
        if self.draw(3) == 0 {
            vec![Move::Open, Move::View(Say::View)]
        } else {
            vec![Move::Open, Move::Search, Move::View(Say::View)]
        }
    }

    fn definitions(&self) -> Move {
        Move::Definitions { path: self.main_file().map_or(".", FilePatch::path).to_owned() }
    }

    /// Returns the moves that make the whole change.
    fn fix(&mut self) -> Vec<Move> {
        self.fix_from(0)
    }

    /// As [`Mock::fix`], without the first hunks of the main file.
    fn fix_from(&mut self, skipped: usize) -> Vec<Move> {
        if self.files.is_empty() {
            return calls(Say::Patch, fix_calls(&self.fix_patch));
        }
        let mut moves = Vec::new();
        for index in 0..self.files.len() {
            let by_edits = self.draw(3) > 0;
            let skipped = if index == self.main { skipped } else { 0 };
            moves.extend(fix_file(&self.files[index], skipped, by_edits));
        }
        moves
    }

    /// Returns a patch from memory that does not fit, and a second look.
    fn stale(&self) -> Vec<Move> {
        let Some((file, hunk)) = self.main_hunk() else { return Vec::new() };
        let mut stale = hunk.clone();
        let is_remembered = |line: &&mut Line| line.kind != Kind::Added && !line.text.trim().is_empty();
        let Some(line) = stale.lines.iter_mut().find(is_remembered) else { return Vec::new() };
        line.text.push_str("  # as before");
        let call = Call::new("apply_patch", &json!({"patch": file.render(&[stale])}));
        vec![Move::Call { say: Say::Stale, call, train: Some(false) }, Move::View(Say::AfterStale)]
    }

    /// Returns an edit that breaks the file, and the way back.
    fn fix_after_wrong_edit(&mut self) -> Vec<Move> {
        let Some((file, hunk)) = self.main_hunk() else { return self.fix() };
        let wrong = with_open_bracket(hunk);
        let edit = |old: &str, new: &str| Call::new("edit", &json!({"path": file.path(), "old": old, "new": new}));
        let (old, right) = (hunk.side(Kind::Added), hunk.side(Kind::Removed));
        let wrong_call = Move::Call { say: Say::Edit, call: edit(&old, &wrong), train: Some(false) };
        let undo = Move::Call { say: Say::Undo, call: edit(&wrong, &right), train: None };
        let mut accepted = vec![Move::RunTests(Say::Test), undo];
        accepted.extend(self.fix_from(1));
        vec![wrong_call, Move::IfRefused { refused: self.fix(), accepted }]
    }

    /// Returns the moves that leave conflict markers in the main file.
    fn half_merged(&self) -> Vec<Move> {
        let Some((file, hunk)) = self.main_hunk() else {
            let path = self.main_file().map_or("unfinished.py", FilePatch::path);
            let call = Call::new("edit", &json!({"path": path, "old": "", "new": "def unfinished(:\n"}));
            return vec![Move::Call { say: Say::Half, call, train: None }];
        };
        let added = |text: &str| Line { kind: Kind::Added, text: text.to_owned(), newline: true };
        let old = hunk.lines.iter().filter(|line| line.kind != Kind::Added);
        let new = hunk.lines.iter().filter(|line| line.kind != Kind::Removed);
        let mut lines = vec![added("<<<<<<< HEAD")];
        lines.extend(old.map(|line| Line { kind: Kind::Context, ..line.clone() }));
        let ends_open = lines.last().is_some_and(|line| !line.newline);
        lines.push(added("======="));
        lines.extend(new.map(|line| Line { kind: Kind::Added, newline: true, ..line.clone() }));
        lines.push(added(">>>>>>> rework"));
        let conflict = Hunk { old_start: hunk.old_start, lines };
        let call = if ends_open {
            let text = conflict.side(Kind::Removed);
            Call::new("edit", &json!({"path": file.path(), "old": hunk.side(Kind::Added), "new": text}))
        } else {
            Call::new("apply_patch", &json!({"patch": file.render(&[conflict])}))
        };
        vec![Move::Call { say: Say::Half, call, train: None }]
    }

    fn edit_tests(&mut self) -> Vec<Move> {
        let weakened = self.draw(2) == 0;
        match self.visible_tests.first() {
            Some(path) if weakened => {
                let call = Call::new("search", &json!({"pattern": "assert", "path": path}));
                let path = path.clone();
                vec![Move::Call { say: Say::ViewMore, call, train: None }, Move::WeakenTest { path }]
            }
            _ => vec![Move::Configure],
        }
    }
}

fn calls(occasion: Say, calls: Vec<Call>) -> Vec<Move> {
    calls.into_iter().map(|call| Move::Call { say: occasion, call, train: None }).collect()
}

/// Returns the moves that change one file as the fix does.
fn fix_file(file: &FilePatch, skipped: usize, by_edits: bool) -> Vec<Move> {
    let patch = |hunks: &[Hunk]| Move::Call {
        say: Say::Patch,
        call: Call::new("apply_patch", &json!({"patch": file.render(hunks)})),
        train: None,
    };
    if file.unsupported.is_some() || file.hunks.is_empty() {
        return calls(Say::Patch, fix_calls(file.raw.as_bytes()));
    }
    if file.old_path.is_none() {
        let content = file.hunks[0].side(Kind::Removed);
        let call = Call::new("edit", &json!({"path": file.path(), "old": "", "new": content}));
        return vec![Move::Call { say: Say::Edit, call, train: None }];
    }
    if file.new_path.is_none() {
        return vec![patch(&file.hunks)];
    }
    // Where the earlier hunks are in place, later ones stand further down.
    let mut shift = 0_isize;
    let mut placed = Vec::new();
    for hunk in &file.hunks {
        placed.push(Hunk { old_start: hunk.old_start.saturating_add_signed(shift), lines: hunk.lines.clone() });
        shift += hunk.n_new().cast_signed() - hunk.n_old().cast_signed();
    }
    let left = &placed[skipped.min(placed.len())..];
    if !by_edits || left.len() > 6 || left.iter().any(|hunk| hunk.n_old() == 0) {
        if skipped == 0 {
            return vec![patch(&file.hunks)];
        }
        return left.iter().map(|hunk| patch(std::slice::from_ref(hunk))).collect();
    }
    let mut moves = Vec::new();
    for hunk in left {
        let (old, new) = (hunk.side(Kind::Added), hunk.side(Kind::Removed));
        let call = Call::new("edit", &json!({"path": file.path(), "old": old, "new": new}));
        moves.push(Move::Call { say: Say::Edit, call, train: None });
        let fallback = vec![patch(std::slice::from_ref(hunk))];
        moves.push(Move::IfRefused { refused: fallback, accepted: Vec::new() });
    }
    moves
}

/// Returns the hunk's new side with a bracket that nothing closes.
fn with_open_bracket(hunk: &Hunk) -> String {
    let mut wrong = hunk.clone();
    let is_code = |line: &&mut Line| {
        let text = line.text.trim();
        line.kind != Kind::Removed && !text.is_empty() && !text.starts_with('#')
    };
    let is_new = wrong.lines.iter().any(|line| line.kind == Kind::Added && !line.text.trim().is_empty());
    let last = wrong.lines.iter_mut().filter(is_code).rfind(|line| !is_new || line.kind == Kind::Added);
    if let Some(line) = last {
        line.text.push('(');
    }
    let text = wrong.side(Kind::Removed);
    if text == hunk.side(Kind::Removed) { format!("{text}(") } else { text }
}
