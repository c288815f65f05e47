//! Which commits there are, and in which order.

use std::collections::{BinaryHeap, HashMap, HashSet};

use git2::Oid;

use super::{ReadError, Repo, object::Commit};

/// A commit met by a walk, or why it could not be read.
pub type Met = Result<Commit, (Oid, ReadError)>;

impl Repo {
    /// Returns every commit reachable from a tip: a child before its parents as far as commit times allow, newest
    /// first. Parents that a shallow clone cut off are left out; the commits at the cut keep their parents' ids.
    pub fn history(&self, tip: Oid) -> Vec<Met> {
        let mut met = Vec::new();
        let mut seen = HashSet::from([tip]);
        let mut queue = BinaryHeap::new();
        let mut read: HashMap<Oid, Commit> = HashMap::new();
        let mut order = 0_u64;
        let mut push =
            |id: Oid, queue: &mut BinaryHeap<(i64, u64, Oid)>, met: &mut Vec<Met>, read: &mut HashMap<_, _>| {
                // Among equal times, the one found first goes first.
                order += 1;
                match self.commit(id) {
                    Ok(commit) => {
                        queue.push((commit.time.unwrap_or(i64::MIN), u64::MAX - order, id));
                        read.insert(id, commit);
                    }
                    Err(error) => met.push(Err((id, error))),
                }
            };
        push(tip, &mut queue, &mut met, &mut read);
        while let Some((_, _, id)) = queue.pop() {
            let Some(commit) = read.remove(&id) else { continue };
            if !self.is_boundary(id) {
                for &parent in &commit.parents {
                    if seen.insert(parent) {
                        push(parent, &mut queue, &mut met, &mut read);
                    }
                }
            }
            met.push(Ok(commit));
        }
        met
    }
}
