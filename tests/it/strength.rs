//! Planted commits: a fix tangled with something else, and a strong and a weak test of the same fix.

use std::path::Path;

use curate::{
    build, config, environments,
    lab::Lab,
    record::{
        strength::{Fate, HunkStrength, MutantStrength, Strength},
        task::Task,
    },
    validate,
};

use crate::{
    support::{plant, require},
    traps::{self, Mined},
};

const SHOP: &str = r#""""A shop."""


def total(prices, discount=0):
    """Adds prices up."""
    result = 0
    for price in prices:
        result += price
    return result


def average(prices):
    if not prices:
        return None
    return sum(prices) / len(prices)


def describe(name, price):
    parts = [name, str(price)]
    parts.append("each")
    text = " ".join(parts)
    return text


def shipping(weight):
    if weight > 10:
        return 20
    return 5
"#;

const FIXED_TOTAL: &str = r#""""A shop."""


def total(prices, discount=0):
    """Adds prices up, less the discount that large orders get."""
    result = 0
    for price in prices:
        if price < 0:
            raise ValueError("a price below 0")
        result += price
    if result >= 100 and discount > 0:
        result -= result * discount // 100
    return result
"#;

const STRONG: &str = r"import pytest

from shop import total


def test_large_orders_get_a_discount():
    assert total([60, 40], 10) == 90
    assert total([60, 39], 10) == 99
    assert total([150, 51], 50) == 101


def test_small_changes_of_a_discount_count():
    assert total([100], 1) == 99
    assert total([200], 0) == 200


def test_prices_are_not_negative():
    assert total([0, 5]) == 5
    with pytest.raises(ValueError):
        total([5, -1])
";

const WEAK: &str = r"from shop import total


def test_large_orders_cost_less():
    assert total([100, 100], 10) < 200
";

/// Returns the shop with its fix, a comment elsewhere, and another rule for shipping.
fn tangled() -> String {
    let (_, rest) = SHOP.split_once("    return result\n").unwrap();
    let fixed = format!("{FIXED_TOTAL}{rest}");
    let fixed = fixed.replace("    parts = [", "    # What stands on the label.\n    parts = [");
    fixed.replace("weight > 10:", "weight > 10 or weight < 0:")
}

/// Mines a history of a base and a fix.
fn mine(place: &Path, base: &[(&str, &str)], fix: &[(&str, &str)]) -> Mined {
    plant(&place.join("base"), base);
    plant(&place.join("fix"), fix);
    let steps = "[[commit]]\nid = 'base'\nmessage = 'Start'\ndate = '2024-03-01T12:00:00Z'\n\n\
                 [[commit]]\nid = 'fix'\nmessage = 'Fix it'\ndate = '2024-03-02T12:00:00Z'\n";
    plant(place, &[("history.toml", steps)]);
    traps::mine(place)
}

fn validate(lab: &Lab, mined: &Mined, settings: &config::Validate) -> Task {
    let candidate = mined.candidate("fix");
    let build = build::build(lab, &mined.repository, candidate, None, &config::Build::default()).unwrap().unwrap();
    let context = validate::Context { lab, repository: &mined.repository, candidate, build: &build, settings };
    let validation = validate::validate(context).unwrap();
    let size = serde_json::to_vec(&validation.verdict.as_ref().unwrap().hidden.strength).unwrap().len();
    assert!(size < 8_000, "the summary of the variants takes {size} bytes");
    validation.verdict.unwrap()
}

fn python(lab: &Lab, test: &str, runs: u32) -> Strength {
    let place = tempfile::tempdir().unwrap();
    let manifest = "[project]\nname = \"shop\"\nversion = \"1.0\"\nrequires-python = \">=3.8\"\n\n\
                    [project.optional-dependencies]\ntest = [\"pytest\"]\n";
    let base =
        [("pyproject.toml.in", manifest), ("shop.py", SHOP), ("tests/test_other.py", "def test_it():\n    pass\n")];
    let fixed = tangled();
    let fix = [("shop.py", fixed.as_str()), ("tests/test_total.py", test)];
    let settings = config::Validate { repeats: 1, test_s: 10, strength_runs: runs, ..config::Validate::default() };
    validate(lab, &mine(place.path(), &base, &fix), &settings).hidden.strength
}

#[test]
fn a_tangled_hunk_is_named_and_mutants_tell_a_strong_test_from_a_weak_one() {
    let Some(lab) = traps::lab() else { return };
    let (strong, weak) = (python(lab, STRONG, 24), python(lab, WEAK, 24));
    for strength in [&strong, &weak] {
        let hunks: Vec<(String, bool)> =
            strength.hunks.iter().map(|hunk| (hunk.place(), hunk.is_code && hunk.noticed_by != Some(0))).collect();
        let expected = [("shop.py:5-12", true), ("shop.py:23-23", false), ("shop.py:31-31", false)];
        assert_eq!(hunks, expected.map(|(place, needed)| (place.to_owned(), needed)));
        let unneeded: Vec<(String, &str)> =
            strength.unneeded_hunks().map(|hunk| (hunk.place(), hunk.header.as_str())).collect();
        assert_eq!(unneeded, [("shop.py:31-31".to_owned(), "@@ -23,6 +28,6 @@ def describe(name, price):")]);
        assert_eq!(strength.n_run, strength.n_planned);
    }
    assert_eq!((strong.hunks[0].noticed_by, weak.hunks[0].noticed_by), (Some(3), Some(1)));
    eprintln!("strong {}/{}, weak {}/{}", strong.n_killed(), strong.n_mutants(), weak.n_killed(), weak.n_mutants());
    // What a hunk that is not needed does, no test can tell.
    let is_of_fix = |strength: &Strength| strength.mutants.iter().all(|mutant| (5..=14).contains(&mutant.line));
    assert!(is_of_fix(&strong) && is_of_fix(&weak));
    assert_eq!(strong.n_mutants(), weak.n_mutants());
    assert!(strong.n_killed() * 10 >= strong.n_mutants() * 8, "{:?}", strong.survivors().collect::<Vec<_>>());
    assert!(weak.n_killed() * 10 <= weak.n_mutants() * 5, "{:?}", weak.survivors().collect::<Vec<_>>());
}

#[test]
fn runs_are_limited_and_can_be_turned_off() {
    let Some(lab) = traps::lab() else { return };
    assert_eq!(python(lab, WEAK, 0), Strength::default());
    let few = python(lab, WEAK, 4);
    assert_eq!((few.n_planned, few.n_run, few.mutants.len()), (4, 4, 2));
    assert_eq!(few.hunks.iter().filter(|hunk| hunk.noticed_by.is_some()).count(), 2);
}

#[test]
fn mutants_that_do_not_compile_count_for_nothing() {
    let Some(backend) = crate::support::backends().into_iter().next() else { return };
    if !require("go", environments::go::toolchain().is_ok()) {
        return;
    }
    let cache = curate::cache::Cache::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")).unwrap();
    let lab = Lab::new(cache, backend, 1);
    let place = tempfile::tempdir().unwrap();
    let old = "package demo\n\nfunc Cap(n, max int) int {\n\treturn n\n}\n\n// Half of a number.\n//\n// Rounded.\n//\n\
               // Down.\nfunc Half(n int) int {\n\treturn n / 2\n}\n";
    let fixed = old
        .replace(
            "\treturn n\n",
            "\tname := \"cap\"\n\tname += \"\"\n\tif n > max && name == \"cap\" {\n\t\treturn max\n\t}\n\treturn n\n",
        )
        .replace("\treturn n / 2\n", "\treturn n >> 1\n");
    let test = |name: &str, body: &str| {
        format!(
            "package demo\n\nimport \"testing\"\n\nfunc Test{name}(t *testing.T) {{\n\tif {body} {{\n\t\tt.Fatal()\n\t}}\n}}\n"
        )
    };
    let (half, cap) = (test("Half", "Half(4) != 2"), test("Cap", "Cap(5, 3) != 3 || Cap(2, 3) != 2"));
    let base = [("go.mod", "module example.com/demo\n\ngo 1.18\n"), ("demo.go", old), ("demo_test.go", &half)];
    let fix = [("demo.go", fixed.as_str()), ("cap_test.go", &cap)];
    let settings = config::Validate { repeats: 1, strength_runs: 30, ..config::Validate::default() };
    let strength = validate(&lab, &mine(place.path(), &base, &fix), &settings).hidden.strength;
    let unneeded: Vec<String> = strength.unneeded_hunks().map(HunkStrength::place).collect();
    assert_eq!(unneeded, ["demo.go:18-18"], "{strength:#?}");
    // Strings cannot be subtracted.
    let unviable: Vec<&MutantStrength> = strength.mutants.iter().filter(|it| it.fate == Fate::Unviable).collect();
    assert!(unviable.iter().any(|mutant| mutant.what == "`+=` → `-=`"), "{strength:#?}");
    assert_eq!(strength.n_mutants() + unviable.len(), strength.mutants.len());
    assert!(strength.n_planned <= 10 && strength.n_killed() >= 2, "{strength:#?}");
}
