//! Which script a scripted attempt follows.

use crate::record::id::Digest;

/// What the scripted agent sets out to do, and the label that this leads to. A task may not offer what a script needs
/// (a second function to break, say); then another label comes out, and the episode still names its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Explores, mends, tests: resolved.
    Fix,
    /// A patch from memory is refused, then as `Fix`.
    FixAfterStalePatch,
    /// An edit breaks the file, the tests show it, then as `Fix`.
    FixAfterWrongEdit,
    /// Changes another source file.
    WrongFile,
    /// Treats the value from the issue as a special case: test overfit.
    Overfit,
    /// Mends, and breaks another function: regression.
    Regression,
    /// Changes the right file to no effect.
    IncorrectFix,
    GivesUp,
    /// Leaves conflict markers behind.
    BrokenPatch,
    /// Reads until its replies are used up.
    ExhaustBudget,
    /// Changes tests or the runner's configuration only: test tamper.
    EditTests,
    NoChange,
    ProviderError,
    /// Works until the machine fails: infrastructure.
    LoseSandbox,
}

const FIXES: [Script; 3] = [Script::Fix, Script::FixAfterStalePatch, Script::FixAfterWrongEdit];

const FAULTS: [Script; 11] = [
    Script::WrongFile,
    Script::Overfit,
    Script::Regression,
    Script::IncorrectFix,
    Script::EditTests,
    Script::GivesUp,
    Script::BrokenPatch,
    Script::ExhaustBudget,
    Script::NoChange,
    Script::ProviderError,
    Script::LoseSandbox,
];

impl Script {
    pub fn name(self) -> &'static str {
        match self {
            Script::Fix => "fix",
            Script::FixAfterStalePatch => "fix_after_stale_patch",
            Script::FixAfterWrongEdit => "fix_after_wrong_edit",
            Script::WrongFile => "wrong_file",
            Script::Overfit => "overfit",
            Script::Regression => "regression",
            Script::IncorrectFix => "incorrect_fix",
            Script::GivesUp => "gives_up",
            Script::BrokenPatch => "broken_patch",
            Script::ExhaustBudget => "exhaust_budget",
            Script::EditTests => "edit_tests",
            Script::NoChange => "no_change",
            Script::ProviderError => "provider_error",
            Script::LoseSandbox => "lose_sandbox",
        }
    }

    /// Draws the script of one attempt.
    ///
    /// Not independently: of a task's samples 0 to 3 one or two are fixes and the others faults that differ from each
    /// other, so that a few tasks with four samples each show nearly every label. Later samples go on in the same way.
    pub fn choose(seed: u64, instance_id: &str, sample: u32) -> Script {
        let draw = |what: &str, limit: usize| {
            let number =
                Digest::of(&[b"script", what.as_bytes(), &seed.to_le_bytes(), instance_id.as_bytes()]).number();
            usize::try_from(number % limit as u64).expect("below the limit")
        };
        let sample = sample as usize;
        // Two of four where the task's draw says so, else one.
        let two_fixes = draw("share", 2) == 0;
        let is_fix = |k: usize| k.is_multiple_of(4) || (two_fixes && k % 4 == 2);
        let rank = (0..sample).filter(|k| is_fix(*k) == is_fix(sample)).count();
        if is_fix(sample) {
            FIXES[(draw("fix", FIXES.len()) + rank) % FIXES.len()]
        } else {
            // A step that has no divisor in common with the table visits every fault before it repeats one.
            FAULTS[(draw("fault", FAULTS.len()) + rank * 4) % FAULTS.len()]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_choice_is_fixed_by_its_inputs_and_samples_of_a_task_differ() {
        for task in ["a", "b", "c", "d"] {
            let scripts: Vec<Script> = (0..4).map(|sample| Script::choose(7, task, sample)).collect();
            assert_eq!(scripts, (0..4).map(|sample| Script::choose(7, task, sample)).collect::<Vec<_>>());
            assert_eq!(scripts.iter().collect::<HashSet<_>>().len(), 4, "{scripts:?}");
            assert!(FIXES.contains(&scripts[0]) && !FIXES.contains(&scripts[1]));
        }
    }

    #[test]
    fn many_samples_of_one_task_show_every_script() {
        let seen: HashSet<Script> = (0..24).map(|sample| Script::choose(0, "task", sample)).collect();
        assert_eq!(seen.len(), FIXES.len() + FAULTS.len());
    }

    #[test]
    fn a_dozen_tasks_with_four_samples_show_every_fault_and_a_third_of_fixes() {
        let scripts: Vec<Script> = (0..12)
            .flat_map(|task| (0..4).map(move |sample| Script::choose(0, &format!("repo-{task}"), sample)))
            .collect();
        let faults: HashSet<&Script> = scripts.iter().filter(|script| FAULTS.contains(script)).collect();
        assert!(faults.len() >= FAULTS.len() - 1, "{faults:?}");
        let n_fixes = scripts.iter().filter(|script| FIXES.contains(script)).count();
        assert!((12..=24).contains(&n_fixes), "{n_fixes}");
    }
}
