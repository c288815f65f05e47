//! Notices when a policy goes round in circles. Pure.

use crate::record::id::Digest;

/// Pairs of action and observation, one per step.
///
/// What the policy says beside its calls does not count: a reworded thought before the same call is the same step.
/// Waiting for something that changes is no circle, because its observations differ.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    steps: Vec<Digest>,
}

/// Identical steps in a row that end an episode.
const SAME: usize = 4;
/// Steps of an alternation `A B A B A B` that end an episode.
const ALTERNATING: usize = 6;

impl Detector {
    /// Takes in one step: its calls and their observations, without notes of ours that count upwards.
    pub fn observe(&mut self, pairs: &[(String, String)]) {
        self.steps.push(Digest::of_json(&pairs));
    }

    /// Says whether the last steps repeat each other, and how.
    pub fn verdict(&self) -> Option<String> {
        let last = |n: usize| self.steps.len().checked_sub(n).map(|start| &self.steps[start..]);
        if last(SAME).is_some_and(|steps| steps.iter().all(|step| *step == steps[0])) {
            return Some(format!("the last {SAME} steps were the same call with the same result"));
        }
        if last(ALTERNATING).is_some_and(|steps| steps.windows(3).all(|three| three[0] == three[2])) {
            return Some(format!("the last {ALTERNATING} steps were two calls in turn with the same results"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_stuck(steps: &[(&str, &str)]) -> bool {
        let mut detector = Detector::default();
        for (call, seen) in steps {
            detector.observe(&[((*call).to_owned(), (*seen).to_owned())]);
        }
        detector.verdict().is_some()
    }

    #[test]
    fn repeats_and_alternations_are_noticed_but_waiting_is_not() {
        assert!(!is_stuck(&[("ls", "a"); 3]));
        assert!(is_stuck(&[("ls", "a"); 4]));
        assert!(is_stuck(&[
            ("x", ""),
            ("ls", "a"),
            ("cat", "b"),
            ("ls", "a"),
            ("cat", "b"),
            ("ls", "a"),
            ("cat", "b")
        ]));
        assert!(!is_stuck(&[("ls", "a"), ("cat", "b"), ("ls", "a"), ("cat", "b"), ("ls", "a")]));
        assert!(!is_stuck(&[("tail log", "1"), ("tail log", "2"), ("tail log", "3"), ("tail log", "4")]));
    }
}
