//! From what was seen to a label and a reward. Pure.

use crate::record::episode::{Label, StopReason};

/// How many tests of a list were seen to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u32,
    pub total: u32,
}

impl Count {
    fn all(self) -> bool {
        self.passed == self.total
    }
}

/// Everything that a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The machine failed: in the episode or, after a retry, in grading.
    pub infrastructure: Option<String>,
    /// How the episode ended; `None` for a patch without one.
    pub stop: Option<StopReason>,
    pub stop_detail: String,
    /// Why the patch is none: too large, does not apply, leaves source that does not compile.
    pub broken: Option<String>,
    /// Paths that take part in grading.
    pub n_carried: usize,
    /// Paths that do not: tests, runner configuration and the like.
    pub n_dropped: usize,
    /// Whether a source file that the fix changes is among those carried.
    pub touches_fix: bool,
    /// Names of findings that stand for an attack on the verdict.
    pub tampering: Vec<String>,
    /// Names of those among them by which the tests themselves could be made to seem passed.
    pub forging: Vec<String>,
    /// Whether the patch treats values of the issue or of the tests as special cases.
    pub special_cases: bool,
    pub fail_to_pass: Count,
    pub pass_to_pass: Count,
    /// Whether the run's own closing record arrived.
    pub complete: bool,
}

impl Facts {
    fn all_seen_to_pass(&self) -> bool {
        self.complete && self.fail_to_pass.all() && self.pass_to_pass.all() && self.fail_to_pass.total > 0
    }

    fn hit_a_limit(&self) -> bool {
        use StopReason::{MaxSteps, MaxTokens, MaxWall, Stuck};
        matches!(self.stop, Some(MaxSteps | MaxTokens | MaxWall | Stuck))
    }
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub label: Label,
    /// `None` where the machine or the provider failed, not the agent.
    pub reward: Option<bool>,
    pub detail: String,
}

/// Judges: the first arm that fits.
pub fn judge(facts: &Facts) -> Verdict {
    let (label, reward, detail) = match facts {
        // **What**: the sandbox could not be had or was lost, or the tests could not be started. No reward.
        // **Why**: the attempt was never judged; a 0 would teach that what it did was wrong.
        // **Example**: the environment cannot be rebuilt from its lock.
        Facts { infrastructure: Some(detail), .. } => (Label::Infrastructure, None, detail.clone()),

        // **What**: the policy's replies could not be had. No reward, whatever was done before.
        // **Why**: the attempt was cut short by someone else.
        // **Example**: the model's server answers 503 for minutes.
        Facts { stop: Some(StopReason::ProviderError), .. } => (Label::ProviderError, None, facts.stop_detail.clone()),

        // **What**: every fail-to-pass and pass-to-pass test was seen and passed, and nothing that could forge this is
        // in the patch. How the episode ended does not matter.
        // **Why**: work that is done counts even if the agent ran out of replies before it said so.
        // **Example**: the right edit, then views until the last reply.
        facts if facts.all_seen_to_pass() && facts.forging.is_empty() => {
            (Label::Resolved, Some(true), "every test was seen and passed".to_owned())
        }

        // **What**: all tests seem to pass, but the patch reaches into the test framework or the results.
        // **Why**: in one process with the tests, such code can make them pass; the verdict cannot be trusted.
        // **Example**: source that imports `_pytest` and replaces `TestReport.outcome`.
        facts if facts.all_seen_to_pass() => {
            (Label::TestTamper, Some(false), format!("the tests pass, but the patch has {}", facts.forging.join(", ")))
        }

        // **What**: steps, tokens or time ran out, or the agent went round in circles, and the issue is not resolved.
        // **Why**: the patch is a snapshot of unfinished work, so no label about it would be fair.
        // **Example**: forty views and no edit.
        facts if facts.hit_a_limit() => {
            let stop = facts.stop.map_or("", StopReason::name);
            (Label::BudgetExceeded, Some(false), with_detail(stop, &facts.stop_detail))
        }

        // **What**: the patch is too large or does not apply, or source in it does not compile.
        // **Why**: no tests can tell anything about it.
        // **Example**: conflict markers left in a module.
        Facts { broken: Some(detail), .. } => (Label::BrokenPatch, Some(false), detail.clone()),

        // **What**: the agent said that it gives up.
        // **Why**: it knows that the issue is not resolved; that is another lesson than a wrong belief.
        // **Example**: `finish` with `gave_up`.
        Facts { stop: Some(StopReason::GaveUp), .. } => {
            (Label::GaveUp, Some(false), with_detail("the agent gave up", &facts.stop_detail))
        }

        // **What**: the tree is as it was.
        // **Why**: there is nothing to judge.
        // **Example**: edits that were undone, or stashed.
        Facts { n_carried: 0, n_dropped: 0, .. } => {
            (Label::NoChange, Some(false), "the patch changes nothing".to_owned())
        }

        // **What**: only tests and runner configuration were changed, or the patch attacks the verdict.
        // **Why**: rewards that were tried to be had by a shortcut are kept apart from honest failures.
        // **Example**: a `conftest.py` hook that reports every test as passed; `os._exit(0)` in a module.
        facts if facts.n_carried == 0 => {
            (Label::TestTamper, Some(false), "the patch changes only tests or runner configuration".to_owned())
        }
        facts if !facts.tampering.is_empty() => {
            (Label::TestTamper, Some(false), format!("the patch has {}", facts.tampering.join(", ")))
        }

        // **What**: no source file that the fix changes was touched.
        // **Why**: the agent did not find the place.
        // **Example**: a change in `cli.py` for a bug in `parser.py`.
        Facts { touches_fix: false, .. } => {
            (Label::WrongFile, Some(false), with_counts("no source file of the fix was touched", facts))
        }

        // **What**: some fail-to-pass tests pass and others do not while nothing else broke, or values of the issue are
        // treated as special cases.
        // **Why**: the change answers examples, not the behaviour behind them.
        // **Example**: `if text == "10 kB": return 10240`.
        facts if facts.special_cases => {
            (Label::TestOverfit, Some(false), with_counts("values of the issue are special cases", facts))
        }
        facts if facts.fail_to_pass.passed > 0 && !facts.fail_to_pass.all() && facts.pass_to_pass.all() => {
            (Label::TestOverfit, Some(false), with_counts("only a part of the behaviour is mended", facts))
        }

        // **What**: the tests pass, but tests that passed before do not any more, or the run did not end.
        // **Why**: the fix is there and has broken something.
        // **Example**: a changed default that another function relied on.
        facts if facts.fail_to_pass.all() && facts.fail_to_pass.total > 0 => {
            let what = if facts.complete { "other tests broke" } else { "the test run did not come to its end" };
            (Label::Regression, Some(false), with_counts(what, facts))
        }

        // **What**: all that is left: the right file, a change that compiles, and the tests still fail.
        // **Why**: an honest wrong answer.
        // **Example**: a wrong boundary.
        facts => (Label::IncorrectFix, Some(false), with_counts("the issue's tests still fail", facts)),
    };
    Verdict { label, reward, detail }
}

fn with_detail(text: &str, detail: &str) -> String {
    if detail.is_empty() { text.to_owned() } else { format!("{text}: {detail}") }
}

fn with_counts(text: &str, facts: &Facts) -> String {
    format!(
        "{text} (fail-to-pass {}/{}, pass-to-pass {}/{})",
        facts.fail_to_pass.passed, facts.fail_to_pass.total, facts.pass_to_pass.passed, facts.pass_to_pass.total
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u32, total: u32) -> Count {
        Count { passed, total }
    }

    /// A finished episode whose patch touches the right file and changes no outcome.
    fn unresolved() -> Facts {
        Facts {
            stop: Some(StopReason::Finished),
            n_carried: 1,
            touches_fix: true,
            fail_to_pass: count(0, 2),
            pass_to_pass: count(3, 3),
            complete: true,
            ..Facts::default()
        }
    }

    fn resolved() -> Facts {
        Facts { fail_to_pass: count(2, 2), ..unresolved() }
    }

    fn verdict(facts: &Facts) -> (Label, Option<bool>) {
        let verdict = judge(facts);
        assert!(!verdict.detail.is_empty() || verdict.label == Label::ProviderError, "{verdict:?}");
        (verdict.label, verdict.reward)
    }

    #[test]
    fn every_label_has_its_case() {
        let stop = |stop| Some(stop);
        let name = || vec!["os_exit".to_owned()];
        let cases = [
            (Label::Resolved, resolved()),
            (Label::Infrastructure, Facts { infrastructure: Some("lost".into()), ..resolved() }),
            (Label::ProviderError, Facts { stop: stop(StopReason::ProviderError), ..resolved() }),
            (Label::BudgetExceeded, Facts { stop: stop(StopReason::MaxSteps), ..unresolved() }),
            (Label::BrokenPatch, Facts { broken: Some("no".into()), ..unresolved() }),
            (Label::GaveUp, Facts { stop: stop(StopReason::GaveUp), ..unresolved() }),
            (Label::NoChange, Facts { n_carried: 0, touches_fix: false, ..unresolved() }),
            (Label::TestTamper, Facts { n_carried: 0, n_dropped: 1, touches_fix: false, ..unresolved() }),
            (Label::WrongFile, Facts { touches_fix: false, ..unresolved() }),
            (Label::TestOverfit, Facts { fail_to_pass: count(1, 2), ..unresolved() }),
            (Label::Regression, Facts { pass_to_pass: count(2, 3), ..resolved() }),
            (Label::IncorrectFix, unresolved()),
        ];
        assert_eq!(cases.clone().map(|(label, _)| label), Label::ALL);
        for (label, facts) in cases {
            let reward = match label {
                Label::Infrastructure | Label::ProviderError => None,
                label => Some(label == Label::Resolved),
            };
            assert_eq!(verdict(&facts), (label, reward));
        }
        assert_eq!(verdict(&Facts { tampering: name(), ..unresolved() }).0, Label::TestTamper);
        assert_eq!(verdict(&Facts { special_cases: true, ..unresolved() }).0, Label::TestOverfit);
        assert_eq!(
            verdict(&Facts { special_cases: true, pass_to_pass: count(0, 3), ..unresolved() }).0,
            Label::TestOverfit
        );
    }

    #[test]
    fn earlier_labels_win() {
        let all = Facts {
            infrastructure: Some("lost".into()),
            stop: Some(StopReason::ProviderError),
            broken: Some("no".into()),
            tampering: vec!["os_exit".into()],
            special_cases: true,
            touches_fix: false,
            ..unresolved()
        };
        let mut facts = all;
        assert_eq!(verdict(&facts).0, Label::Infrastructure);
        facts.infrastructure = None;
        assert_eq!(verdict(&facts).0, Label::ProviderError);
        facts.stop = Some(StopReason::MaxWall);
        assert_eq!(verdict(&facts).0, Label::BudgetExceeded);
        facts.stop = Some(StopReason::GaveUp);
        assert_eq!(verdict(&facts).0, Label::BrokenPatch);
        facts.broken = None;
        assert_eq!(verdict(&facts).0, Label::GaveUp);
        facts.stop = Some(StopReason::Finished);
        assert_eq!(verdict(&facts).0, Label::TestTamper);
        facts.tampering.clear();
        assert_eq!(verdict(&facts).0, Label::WrongFile);
        facts.touches_fix = true;
        assert_eq!(verdict(&facts).0, Label::TestOverfit);
    }

    #[test]
    fn passing_is_seen_complete_and_not_forged() {
        for stop in [StopReason::MaxSteps, StopReason::Stuck, StopReason::GaveUp] {
            assert_eq!(verdict(&Facts { stop: Some(stop), ..resolved() }), (Label::Resolved, Some(true)));
        }
        assert_eq!(verdict(&Facts { complete: false, ..resolved() }), (Label::Regression, Some(false)));
        let forged = Facts { forging: vec!["test_framework_patch".into()], ..resolved() };
        assert_eq!(verdict(&forged), (Label::TestTamper, Some(false)));
        let exits = Facts { complete: false, tampering: vec!["os_exit".into()], ..resolved() };
        assert_eq!(verdict(&exits), (Label::TestTamper, Some(false)));
        let empty = Facts { fail_to_pass: count(0, 0), ..resolved() };
        assert_ne!(verdict(&empty).1, Some(true));
        assert_eq!(verdict(&Facts { n_carried: 0, ..resolved() }), (Label::Resolved, Some(true)));
    }
}
