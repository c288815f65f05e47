//! Which of many to take when there is no time for all. Pure, and the same each time.

use std::ops::Range;

/// Returns an order in which every beginning is spread evenly over the places, each once before any comes again. Equal
/// places stand together.
pub fn spread<K: PartialEq>(places: &[K]) -> Vec<usize> {
    let groups = groups(places);
    let order = halving(groups.len());
    let n_rounds = groups.iter().map(Range::len).max().unwrap_or(0);
    let mut result = Vec::with_capacity(places.len());
    for round in 0..n_rounds {
        for (n, group) in order.iter().map(|&group| &groups[group]).enumerate() {
            if round < group.len() {
                // Not the first of its kind in every place.
                result.push(group.start + (n + round) % group.len());
            }
        }
    }
    result
}

fn groups<K: PartialEq>(places: &[K]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (n, place) in places.iter().enumerate() {
        match groups.last_mut().filter(|group| places[group.start] == *place) {
            Some(group) => group.end = n + 1,
            None => groups.push(n..n + 1),
        }
    }
    groups
}

/// Returns `0..n` in the order of their reversed bits: first, middle, quarters, and so on.
fn halving(n: usize) -> Vec<usize> {
    let n_slots = n.next_power_of_two();
    let unused = usize::BITS - n_slots.trailing_zeros();
    let reversed = |slot: usize| slot.reverse_bits().checked_shr(unused).unwrap_or(0);
    (0..n_slots).map(reversed).filter(|&slot| slot < n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_is_spread_over_the_places() {
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5]), [0, 4, 2, 1, 5, 3]);
        assert_eq!(spread(&["a"]), [0]);
        assert_eq!(spread::<u8>(&[]), [0; 0]);
    }

    #[test]
    fn a_place_comes_again_only_when_all_have_been_and_with_another_of_its_own() {
        // Three on line 1, one on line 2, two on line 3.
        let order = spread(&[1, 1, 1, 2, 3, 3]);
        assert_eq!(order, [0, 5, 3, 1, 4, 2]);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    }
}
