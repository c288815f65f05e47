//! Outcome vectors of two states → transitions and quarantine. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{
    suite::{Report, Status, TestResult},
    task::Transition,
};

/// Returns how a test's outcome differs; `None` means that the test was not there.
///
/// Every pair is written out: a test that is missing or did not run on one side is never a pass there.
pub fn transition(before: Option<Status>, after: Option<Status>) -> Transition {
    use Status::{Crashed, Error, Failed, NotRun, Passed, Skipped, TimedOut, Xfailed, Xpassed};
    match (before, after) {
        (Some(Failed), Some(Passed)) => Transition::FailToPass,
        (Some(Error), Some(Passed)) => Transition::ErrorToPass,
        (Some(TimedOut), Some(Passed)) => Transition::TimeoutToPass,
        (Some(Crashed), Some(Passed)) => Transition::CrashToPass,
        (Some(Skipped | Xfailed | Xpassed), Some(Passed)) => Transition::SkipToPass,
        (None | Some(NotRun), Some(Passed)) => Transition::MissingToPass,
        (Some(Passed), Some(Passed)) => Transition::PassToPass,
        (Some(Passed), Some(Failed | Error | TimedOut | Crashed)) => Transition::PassToFail,
        (Some(Passed), None | Some(NotRun)) => Transition::PassToMissing,
        (Some(Passed), Some(Skipped | Xfailed | Xpassed)) => Transition::Other,
        (None | Some(NotRun), None | Some(NotRun))
        | (Some(Failed), Some(Failed))
        | (Some(Error), Some(Error))
        | (Some(TimedOut), Some(TimedOut))
        | (Some(Crashed), Some(Crashed))
        | (Some(Skipped), Some(Skipped))
        | (Some(Xfailed), Some(Xfailed))
        | (Some(Xpassed), Some(Xpassed)) => Transition::Unchanged,
        (None | Some(NotRun), Some(Failed | Error | TimedOut | Crashed | Skipped | Xfailed | Xpassed))
        | (Some(Failed), None | Some(Error | TimedOut | Crashed | Skipped | Xfailed | Xpassed | NotRun))
        | (Some(Error), None | Some(Failed | TimedOut | Crashed | Skipped | Xfailed | Xpassed | NotRun))
        | (Some(TimedOut), None | Some(Failed | Error | Crashed | Skipped | Xfailed | Xpassed | NotRun))
        | (Some(Crashed), None | Some(Failed | Error | TimedOut | Skipped | Xfailed | Xpassed | NotRun))
        | (Some(Skipped), None | Some(Failed | Error | TimedOut | Crashed | Xfailed | Xpassed | NotRun))
        | (Some(Xfailed), None | Some(Failed | Error | TimedOut | Crashed | Skipped | Xpassed | NotRun))
        | (Some(Xpassed), None | Some(Failed | Error | TimedOut | Crashed | Skipped | Xfailed | NotRun)) => {
            Transition::Other
        }
    }
}

/// Whether a transition is evidence that the fix does something: a test that ran before, did not pass, and passes now.
pub fn is_fix(transition: Transition) -> bool {
    match transition {
        Transition::FailToPass | Transition::ErrorToPass | Transition::TimeoutToPass | Transition::CrashToPass => true,
        Transition::SkipToPass
        | Transition::MissingToPass
        | Transition::PassToPass
        | Transition::PassToFail
        | Transition::PassToMissing
        | Transition::Unchanged
        | Transition::Other => false,
    }
}

/// What repeats must agree on. Ways of failing are one class: a test that always fails, now by an error and now by a
/// time-out, is still a test that never passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Missing,
    Pass,
    Fail,
    Skip,
}

pub fn class(status: Option<Status>) -> Class {
    match status {
        None | Some(Status::NotRun) => Class::Missing,
        Some(Status::Passed) => Class::Pass,
        Some(Status::Failed | Status::Error | Status::TimedOut | Status::Crashed) => Class::Fail,
        Some(Status::Skipped | Status::Xfailed | Status::Xpassed) => Class::Skip,
    }
}

/// How the repeats of one state agree on a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same class in every run; the status of the first run.
    Constant(Option<Status>),
    /// The id occurs in only some runs.
    SometimesMissing,
    /// It passes in some runs and not in others.
    Mixed,
}

/// Compares one test over the repeats of one state.
pub fn agreement(reports: &[&Report], test_id: &str) -> Agreement {
    let classes: BTreeSet<Class> = reports.iter().map(|report| class(report.status(test_id))).collect();
    if classes.len() <= 1 {
        return Agreement::Constant(reports.first().and_then(|report| report.status(test_id)));
    }
    if classes.contains(&Class::Missing) { Agreement::SometimesMissing } else { Agreement::Mixed }
}

/// The stable and the unstable tests of a pair of states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Of every id that is constant on both sides.
    pub transitions: BTreeMap<String, Transition>,
    pub unstable: BTreeMap<String, Instability>,
}

/// Where a test's outcomes differ among repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instability {
    /// The id comes and goes on at least one side.
    Id,
    /// Before the fix only; after it, the test always passes.
    BeforeOnly,
    /// After the fix, whatever happens before.
    After,
}

/// Whether an id holds an object's address, as the default `repr` gives it. Where the sandbox fixes addresses, such an id
/// recurs in every run of one selection on one machine, and in no other.
pub fn holds_address(test_id: &str) -> bool {
    let is_address = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count() >= 6;
    test_id.split(" at 0x").skip(1).any(is_address)
}

/// Settles every test seen in any of the reports.
pub fn settle(before: &[&Report], after: &[&Report]) -> Settled {
    let ids: BTreeSet<&String> = before.iter().chain(after).flat_map(|report| report.tests.keys()).collect();
    let mut settled = Settled::default();
    for id in ids {
        if holds_address(id) {
            settled.unstable.insert(id.clone(), Instability::Id);
            continue;
        }
        let unstable = match (agreement(before, id), agreement(after, id)) {
            (Agreement::Constant(before), Agreement::Constant(after)) => {
                settled.transitions.insert(id.clone(), transition(before, after));
                continue;
            }
            (Agreement::SometimesMissing, _) | (_, Agreement::SometimesMissing) => Instability::Id,
            (Agreement::Mixed, Agreement::Constant(Some(Status::Passed))) => Instability::BeforeOnly,
            (Agreement::Mixed, Agreement::Constant(_)) | (_, Agreement::Mixed) => Instability::After,
        };
        settled.unstable.insert(id.clone(), unstable);
    }
    settled
}

/// Whether a failure looks like a missing network: name resolution, connection, or a client library's wrapping of them.
///
/// Source: the error texts of CPython's socket module, urllib, requests/urllib3, httpx and aiohttp when run without a
/// network.
pub fn is_network_failure(result: &TestResult) -> bool {
    const EXCEPTIONS: &[&str] = &[
        "gaierror",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectTimeout",
        "ConnectError",
        "URLError",
        "NewConnectionError",
        "MaxRetryError",
        "ClientConnectorError",
        "NameResolutionError",
    ];
    const TEXTS: &[&str] = &[
        "Temporary failure in name resolution",
        "Name or service not known",
        "Network is unreachable",
        "No address associated with hostname",
        "nodename nor servname provided",
    ];
    let exception = result.exception.as_deref().unwrap_or_default();
    let exception = exception.rsplit('.').next().unwrap_or_default();
    class(Some(result.status)) == Class::Fail
        && (EXCEPTIONS.contains(&exception) || TEXTS.iter().any(|text| result.message.contains(text)))
}

/// Whether a test found a port in use.
pub fn is_port_conflict(result: &TestResult) -> bool {
    const TEXTS: &[&str] = &["Address already in use", "address already in use", "EADDRINUSE"];
    class(Some(result.status)) == Class::Fail && TEXTS.iter().any(|text| result.message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tests: &[(&str, Status)]) -> Report {
        let result =
            |status| TestResult { status, exception: None, message: String::new(), frames: vec![], duration_ms: 1 };
        Report {
            tests: tests.iter().map(|(id, status)| ((*id).to_owned(), result(*status))).collect(),
            complete: true,
            ..Report::default()
        }
    }

    #[test]
    fn a_test_missing_before_is_never_counted_as_failing() {
        assert_eq!(transition(None, Some(Status::Passed)), Transition::MissingToPass);
        assert_eq!(transition(Some(Status::NotRun), Some(Status::Passed)), Transition::MissingToPass);
        assert!(!is_fix(Transition::MissingToPass));
        assert_eq!(transition(Some(Status::Passed), Some(Status::NotRun)), Transition::PassToMissing);
    }

    #[test]
    fn only_a_pass_after_makes_a_fix() {
        use Status::{Crashed, Error, Failed, NotRun, Passed, Skipped, TimedOut, Xfailed, Xpassed};
        let all = [Passed, Xfailed, Xpassed, Skipped, Failed, Error, TimedOut, Crashed, NotRun];
        for before in all.map(Some).into_iter().chain([None]) {
            for after in all.map(Some).into_iter().chain([None]) {
                let expected = after == Some(Passed) && matches!(before, Some(Failed | Error | TimedOut | Crashed));
                assert_eq!(is_fix(transition(before, after)), expected, "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn b041_b052_any_disagreement_among_repeats_takes_the_test_out() {
        let before =
            [report(&[("a", Status::Failed), ("b", Status::Failed), ("c", Status::Failed), ("d1", Status::Failed)])];
        let second =
            report(&[("a", Status::Error), ("b", Status::Passed), ("c", Status::Failed), ("d2", Status::Failed)]);
        let after = [
            report(&[("a", Status::Passed), ("b", Status::Passed), ("c", Status::Passed), ("d1", Status::Passed)]),
            report(&[("a", Status::Passed), ("b", Status::Passed), ("c", Status::Failed), ("d2", Status::Passed)]),
        ];
        let settled = settle(&[&before[0], &second], &[&after[0], &after[1]]);
        assert_eq!(settled.transitions, [("a".to_owned(), Transition::FailToPass)].into());
        let unstable: Vec<_> = settled.unstable.iter().map(|(id, why)| (id.as_str(), *why)).collect();
        assert_eq!(
            unstable,
            [
                ("b", Instability::BeforeOnly),
                ("c", Instability::After),
                ("d1", Instability::Id),
                ("d2", Instability::Id)
            ]
        );
    }

    #[test]
    fn b052_a_flaky_test_is_in_no_list_whichever_runs_it_passes() {
        let runs = |passes: u32| -> Vec<Report> {
            let status = |n: u32| if (passes >> n) & 1 == 1 { Status::Passed } else { Status::Failed };
            (0..4).map(|n| report(&[("t", status(n))])).collect()
        };
        for (before, after) in (0..16).flat_map(|before| (0..16).map(move |after| (before, after))) {
            let (first, second) = (runs(before), runs(after));
            let settled = settle(&first.iter().collect::<Vec<_>>(), &second.iter().collect::<Vec<_>>());
            let is_constant = [before, after].iter().all(|passes| [0, 15].contains(passes));
            assert_eq!(settled.transitions.contains_key("t"), is_constant, "{before:b} {after:b}");
            assert_eq!(settled.unstable.contains_key("t"), !is_constant, "{before:b} {after:b}");
        }
    }

    #[test]
    fn b041_an_id_that_holds_an_address_is_unstable_even_where_it_recurs() {
        let id = "t.py::t[<object object at 0x7ffff7871a20>]";
        let (before, after) = (report(&[(id, Status::Failed)]), report(&[(id, Status::Passed)]));
        let settled = settle(&[&before, &before], &[&after, &after]);
        assert_eq!(settled.unstable.get(id), Some(&Instability::Id));
        assert!(settled.transitions.is_empty());
        assert!(!holds_address("t.py::t[0x7ffff7871a20]") && !holds_address("t.py::t[at 0x1f]"));
    }

    #[test]
    fn network_failures_are_told_by_exception_or_text() {
        let failed = |exception: &str, message: &str| TestResult {
            status: Status::Failed,
            exception: Some(exception.to_owned()),
            message: message.to_owned(),
            frames: vec![],
            duration_ms: 0,
        };
        assert!(is_network_failure(&failed("socket.gaierror", "[Errno -3]")));
        assert!(is_network_failure(&failed("OSError", "[Errno 101] Network is unreachable")));
        assert!(!is_network_failure(&failed("ValueError", "not a network")));
    }
}
