//! What mining promises of odd repositories, made object by object.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use super::{Selection, select};
use crate::{
    config::{Limit, Mine, MineUnit},
    git::{
        GITLINK, Oid, PLAIN, Repo,
        fixture::{Fixture, ObjectType},
    },
    record::candidate::{RejectReason, Role, Unit},
    sources::Source,
};

fn source(fixture: &Fixture) -> Source {
    let path = fixture.path().to_owned();
    Source { name: "example/repo".to_owned(), given: path.display().to_string(), path, manifest: None }
}

fn mine(fixture: &Fixture, settings: &Mine) -> Selection {
    let selection = select(&source(fixture), settings, &|done, total| assert!(done <= total)).unwrap();
    let repo = fixture.open();
    for candidate in &selection.candidates {
        let edits: Vec<_> = [&candidate.test_patch, &candidate.source_patch]
            .into_iter()
            .flat_map(|patch| repo.apply(&candidate.base_commit, patch).unwrap())
            .collect();
        let has_submodule =
            candidate.changes.iter().any(|change| change.new.as_ref().is_some_and(|new| new.mode == GITLINK));
        let tree = repo.tree_with(&candidate.base_commit, &edits).unwrap();
        assert_eq!(tree == repo.tree(&candidate.fix_commit).unwrap(), !has_submodule, "{}", candidate.fix_commit);
    }
    selection
}

/// Reasons by commit, `None` for candidates.
fn reasons(selection: &Selection) -> BTreeMap<String, Option<RejectReason>> {
    selection.verdicts.iter().map(|verdict| (verdict.commit.clone(), verdict.reason)).collect()
}

/// A tree whose source and tests are in state `number`, with more files.
fn state(fixture: &Fixture, number: u32, more: &[(&[u8], u32, &[u8])]) -> Oid {
    let source = format!("def f():\n    return {number}\n");
    let test = format!("def test_f():\n    assert f() == {number}\n");
    let mut files: Vec<(&[u8], u32, &[u8])> =
        vec![(b"pkg/a.py", PLAIN, source.as_bytes()), (b"tests/test_a.py", PLAIN, test.as_bytes())];
    files.extend_from_slice(more);
    fixture.tree(&files)
}

/// Five commits that each change source and test.
fn line(fixture: &Fixture) -> Vec<Oid> {
    let mut ids: Vec<Oid> = Vec::new();
    for number in 0..5 {
        let parents: Vec<Oid> = ids.last().copied().into_iter().collect();
        ids.push(fixture.commit(state(fixture, number, &[]), &parents, 1000 + i64::from(number), "Fix f"));
    }
    fixture.branch("main", ids[4]);
    ids
}

fn remove_object(fixture: &Fixture, id: Oid) {
    let hex = id.to_string();
    fs::remove_file(fixture.path().join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
}

#[test]
fn b001_the_boundary_of_a_shallow_clone_is_no_root() {
    let fixture = Fixture::new();
    let ids = line(&fixture);
    fs::write(fixture.path().join("shallow"), format!("{}\n", ids[2])).unwrap();
    remove_object(&fixture, ids[1]);
    remove_object(&fixture, ids[0]);
    let selection = mine(&fixture, &Mine::default());
    assert_eq!(selection.candidates.len(), 2);
    assert_eq!(selection.verdicts.len(), 3);
    assert_eq!(reasons(&selection)[&ids[2].to_string()], Some(RejectReason::ShallowBoundary));
    assert!(selection.candidates.iter().all(|candidate| candidate.changes.len() == 2));
}

#[test]
fn b002_a_malformed_commit_costs_that_commit_only() {
    for bad in [0, 2, 4] {
        let fixture = Fixture::new();
        let mut ids: Vec<Oid> = Vec::new();
        for number in 0..5_u32 {
            let parents: Vec<Oid> = ids.last().copied().into_iter().collect();
            let author = if number == bad { "T <t@e.invalid 5 +0000" } else { "T <t@e.invalid> 5 +0000" };
            let people = format!("author {author}\ncommitter T <t@e.invalid> {number} +0000");
            ids.push(fixture.raw_commit(state(&fixture, number, &[]), &parents, &people, b"Fix"));
        }
        fixture.branch("main", ids[4]);
        let selection = mine(&fixture, &Mine::default());
        let found = reasons(&selection);
        assert_eq!(found[&ids[bad as usize].to_string()], Some(RejectReason::UnreadableCommit));
        let n_expected = if bad == 0 { 4 } else { 3 };
        assert_eq!(selection.candidates.len(), n_expected, "bad commit {bad}");
        assert_eq!(found.len(), 5);
    }
}

#[test]
fn b003_odd_dates_and_messages_are_rows_like_others() {
    let fixture = Fixture::new();
    let mut ids = vec![fixture.commit(state(&fixture, 0, &[]), &[], 1, "root")];
    let dates = ["5 +051800", "6 -3407", "", "-7 +0000", "1000000000000000000 +0000", "8 +0000", "9 +0000"];
    for (date, number) in dates.iter().zip(1..) {
        let people = format!("author T <t@e> {date}\ncommitter T <t@e> {date}");
        let message: &[u8] = if number == 6 { b"caf\xe9" } else { b"with\0nul" };
        ids.push(fixture.raw_commit(state(&fixture, number, &[]), &[ids[ids.len() - 1]], &people, message));
    }
    fixture.branch("main", *ids.last().unwrap());
    let selection = mine(&fixture, &Mine::default());
    let found = reasons(&selection);
    assert_eq!(found.len(), 8);
    for (id, is_dated) in ids[1..].iter().zip([true, true, false, true, false, true, true]) {
        let expected = if is_dated { None } else { Some(RejectReason::UnreadableCommit) };
        assert_eq!(found[&id.to_string()], expected);
    }
    assert!(selection.candidates.iter().any(|candidate| candidate.message.0 == b"caf\xe9"));
    serde_json::to_string(&selection.candidates).unwrap();
    let window =
        Mine { since: Some("1970-01-01".into()), until: Some("1970-01-01T00:00:06Z".into()), ..Mine::default() };
    let times: Vec<Option<i64>> = mine(&fixture, &window).verdicts.iter().map(|verdict| verdict.time).collect();
    assert_eq!(times.iter().flatten().copied().collect::<Vec<i64>>(), [5, 1]);
}

#[test]
fn b004_paths_are_bytes() {
    let fixture = Fixture::new();
    let root = fixture.commit(state(&fixture, 0, &[(b"ete\xe9.css", PLAIN, b"a\n")]), &[], 1, "root");
    let fix = fixture.commit(state(&fixture, 1, &[(b"ete\xe9.css", PLAIN, b"caf\xe9\n")]), &[root], 2, "fix");
    fixture.branch("main", fix);
    let selection = mine(&fixture, &Mine::default());
    let paths: Vec<&[u8]> = selection.candidates[0].changes.iter().map(|change| change.path.as_bytes()).collect();
    assert_eq!(paths, [b"ete\xe9.css".as_slice(), b"pkg/a.py", b"tests/test_a.py"]);
}

/// A root, a branch of two commits, a commit beside it, and the merge.
fn merged(fixture: &Fixture, more: &[(&[u8], u32, &[u8])]) -> [Oid; 5] {
    let root = fixture.commit(state(fixture, 0, &[]), &[], 1, "root");
    let one = fixture.commit(state(fixture, 1, more), &[root], 2, "one");
    let two = fixture.commit(state(fixture, 2, more), &[one], 3, "two");
    let beside = fixture.commit(state(fixture, 0, &[(b"README", PLAIN, b"x")]), &[root], 4, "beside");
    let tree = state(fixture, 2, &[&[(b"README".as_slice(), PLAIN, b"x".as_slice())], more].concat());
    let merge = fixture.commit(tree, &[beside, two], 5, "Merge");
    fixture.branch("main", merge);
    [root, one, two, beside, merge]
}

#[test]
fn b007_a_merge_is_one_change_against_its_first_parent() {
    let fixture = Fixture::new();
    let [root, one, two, beside, merge] = merged(&fixture, &[]);
    let selection = mine(&fixture, &Mine::default());
    let expected = [
        (merge, None),
        (beside, Some(RejectReason::NoSourceChange)),
        (two, Some(RejectReason::PartOfMerge)),
        (one, Some(RejectReason::PartOfMerge)),
        (root, Some(RejectReason::RootCommit)),
    ];
    let found: Vec<_> = selection.verdicts.iter().map(|verdict| (verdict.commit.clone(), verdict.reason)).collect();
    assert_eq!(found, expected.map(|(id, reason)| (id.to_string(), reason)));
    assert_eq!(selection.candidates[0].unit, Unit::Merge);
    assert_eq!(selection.candidates[0].base_commit, beside.to_string());

    let single = mine(&fixture, &Mine { unit: MineUnit::Commit, ..Mine::default() });
    let fixes: Vec<String> = single.candidates.iter().map(|candidate| candidate.fix_commit.clone()).collect();
    assert_eq!(fixes, [two.to_string(), one.to_string()]);
    assert_eq!(reasons(&single)[&merge.to_string()], Some(RejectReason::MergeCommit));
}

#[test]
fn b007_what_a_merge_itself_changes_is_part_of_its_patch() {
    let fixture = Fixture::new();
    let root = fixture.commit(state(&fixture, 0, &[]), &[], 1, "root");
    let sides =
        [(1, 2), (2, 3)].map(|(number, time)| fixture.commit(state(&fixture, number, &[]), &[root], time, "side"));
    // A conflict resolved by hand, and a file that neither parent has.
    let tree = state(&fixture, 3, &[(b"pkg/b.py", PLAIN, b"x = 1\n")]);
    let merge = fixture.commit(tree, &sides, 4, "Merge");
    fixture.branch("main", merge);
    let selection = mine(&fixture, &Mine::default());
    let candidate = selection.candidates.iter().find(|it| it.fix_commit == merge.to_string()).unwrap();
    assert_eq!((candidate.unit, &candidate.base_commit), (Unit::Merge, &sides[0].to_string()));
    let patch = candidate.source_patch.lossy();
    assert!(["-    return 1\n", "+    return 3\n", "+x = 1\n"].iter().all(|line| patch.contains(line)), "{patch}");
}

#[test]
fn b007_an_octopus_is_skipped_by_name_and_its_commits_are_not() {
    let fixture = Fixture::new();
    let root = fixture.commit(state(&fixture, 0, &[]), &[], 1, "root");
    let sides =
        [(1, 2), (2, 3)].map(|(number, time)| fixture.commit(state(&fixture, number, &[]), &[root], time, "side"));
    let octopus = fixture.commit(state(&fixture, 2, &[]), &[root, sides[0], sides[1]], 9, "octopus");
    fixture.branch("main", octopus);
    let found = reasons(&mine(&fixture, &Mine::default()));
    assert_eq!(found[&octopus.to_string()], Some(RejectReason::OctopusMerge));
    assert!(sides.iter().all(|side| found[&side.to_string()].is_none()));
}

#[test]
fn the_commits_of_a_merge_that_is_too_large_stand_alone() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..20).map(|number| format!("pkg/m{number}.py")).collect();
    let [_, one, two, _, merge] = {
        let more: Vec<(&[u8], u32, &[u8])> =
            names.iter().map(|name| (name.as_bytes(), PLAIN, b"x = 1\n".as_slice())).collect();
        merged(&fixture, &more)
    };
    let found = reasons(&mine(&fixture, &Mine::default()));
    assert_eq!(found[&merge.to_string()], Some(RejectReason::TooManyFiles));
    assert_eq!(found[&one.to_string()], Some(RejectReason::TooManyFiles));
    assert_eq!(found[&two.to_string()], None);
}

#[test]
fn b008_empty_histories_are_no_errors() {
    let fixture = Fixture::new();
    assert_eq!(mine(&fixture, &Mine::default()), Selection::default());
    let root = fixture.commit(state(&fixture, 0, &[]), &[], 1, "root");
    let empty = fixture.commit(state(&fixture, 0, &[]), &[root], 2, "empty");
    fs::write(fixture.path().join("HEAD"), format!("{empty}\n")).unwrap();
    let found = reasons(&mine(&fixture, &Mine::default()));
    assert_eq!(found[&root.to_string()], Some(RejectReason::RootCommit));
    assert_eq!(found[&empty.to_string()], Some(RejectReason::NoChange));
    fixture.branch("main", empty);
    fs::write(fixture.path().join("HEAD"), "ref: refs/heads/gone\n").unwrap();
    let error = select(&source(&fixture), &Mine::default(), &|_, _| ()).unwrap_err();
    assert!(format!("{error:#}").contains("HEAD names a branch that does not exist"), "{error:#}");
}

#[test]
fn b009_a_submodule_change_is_kept_as_data_and_left_out_of_patches() {
    let fixture = Fixture::new();
    let pointer = |digit: &str| digit.repeat(40).into_bytes();
    let (one, two) = (pointer("1"), pointer("2"));
    let root = fixture.commit(state(&fixture, 0, &[(b"sub", GITLINK, &one)]), &[], 1, "root");
    let fix = fixture.commit(state(&fixture, 1, &[(b"sub", GITLINK, &two)]), &[root], 2, "fix");
    let bump = fixture.commit(state(&fixture, 1, &[(b"sub", GITLINK, &one)]), &[fix], 3, "bump");
    fixture.branch("main", bump);
    let selection = mine(&fixture, &Mine::default());
    assert_eq!(reasons(&selection)[&bump.to_string()], Some(RejectReason::SubmoduleOnly));
    let candidate = &selection.candidates[0];
    assert_eq!(candidate.fix_commit, fix.to_string());
    let sub = candidate.changes.iter().find(|change| change.path.0 == b"sub").unwrap();
    assert_eq!((sub.role, sub.new.as_ref().map(|side| side.mode)), (Role::Other, Some(GITLINK)));
    assert!(!candidate.source_patch.lossy().contains("sub"));
}

#[test]
fn b010_absent_objects_are_named() {
    let fixture = Fixture::new();
    let ids = line(&fixture);
    let blob = fixture.object(ObjectType::Blob, b"def f():\n    return 2\n");
    remove_object(&fixture, blob);
    fs::write(fixture.path().join("config"), "[core]\nbare = true\n[remote \"origin\"]\nurl = x\npromisor = true\n")
        .unwrap();
    let selection = mine(&fixture, &Mine::default());
    let found = reasons(&selection);
    for (id, expected) in ids.iter().zip([
        Some(RejectReason::RootCommit),
        None,
        Some(RejectReason::MissingObjects),
        Some(RejectReason::MissingObjects),
        None,
    ]) {
        assert_eq!(found[&id.to_string()], expected);
    }
    let verdict = selection.verdicts.iter().find(|verdict| verdict.commit == ids[2].to_string()).unwrap();
    assert!(verdict.detail.contains(&blob.to_string()) && verdict.detail.contains("partial"), "{}", verdict.detail);
}

#[test]
fn b017_mass_moves_and_giant_files_cost_nothing() {
    let fixture = Fixture::new();
    let moved = |prefix: &str| -> Vec<(String, String)> {
        (0..1000).map(|n| (format!("{prefix}/m{n}.py"), format!("x = {n}\n"))).collect()
    };
    let tree = |number: u32, files: &[(String, String)]| {
        let files: Vec<(&[u8], u32, &[u8])> =
            files.iter().map(|(path, text)| (path.as_bytes(), PLAIN, text.as_bytes())).collect();
        state(&fixture, number, &files)
    };
    let root = fixture.commit(tree(0, &moved("old")), &[], 1, "root");
    let mass = fixture.commit(tree(1, &moved("new")), &[root], 2, "move");
    let bundle = vec![b'x'; 5 << 20];
    let giant = fixture.commit(state(&fixture, 2, &[(b"pkg/bundle.js", PLAIN, &bundle)]), &[mass], 3, "bundle");
    let fix = fixture.commit(state(&fixture, 3, &[(b"pkg/bundle.js", PLAIN, &bundle)]), &[giant], 4, "fix");
    fixture.branch("main", fix);
    let few = Mine { max_files: 10_000, max_source_files: 10_000, ..Mine::default() };
    let start = std::time::Instant::now();
    let found = reasons(&mine(&fixture, &Mine::default()));
    assert_eq!(found[&mass.to_string()], Some(RejectReason::TooManyFiles));
    assert_eq!(found[&giant.to_string()], Some(RejectReason::TooManyFiles));
    assert_eq!(found[&fix.to_string()], None);
    let found = reasons(&mine(&fixture, &few));
    assert_eq!(found[&giant.to_string()], Some(RejectReason::OversizedFile));
    assert!(start.elapsed().as_secs() < 20);
}

#[test]
fn b018_tests_that_are_lfs_pointers_are_no_tests() {
    let fixture = Fixture::new();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let root = fixture.commit(state(&fixture, 0, &[(b"pkg/b.py", PLAIN, b"x = 1\n")]), &[], 1, "root");
    let more: [(&[u8], u32, &[u8]); 2] = [(b"pkg/b.py", PLAIN, b"x = 2\n"), (b"tests/x.bin", PLAIN, pointer)];
    let only = fixture.commit(state(&fixture, 0, &more), &[root], 2, "pointer only");
    let both = fixture.commit(
        state(&fixture, 1, &[(b"tests/x.bin", PLAIN, b"version https://git-lfs.github.com/spec/v1")]),
        &[only],
        3,
        "both",
    );
    fixture.branch("main", both);
    let selection = mine(&fixture, &Mine::default());
    let found = reasons(&selection);
    assert_eq!(found[&only.to_string()], Some(RejectReason::NoTestChange));
    assert_eq!(found[&both.to_string()], None);
    assert!(selection.verdicts[0].detail.contains("Git LFS pointers: tests/x.bin"));
}

#[test]
fn b020_paths_that_differ_by_case_alone_are_refused() {
    let fixture = Fixture::new();
    let both: [(&[u8], u32, &[u8]); 2] = [(b"d/README", PLAIN, b"x"), (b"d/readme", PLAIN, b"y")];
    let root = fixture.commit(state(&fixture, 0, &both), &[], 1, "root");
    let fix = fixture.commit(state(&fixture, 1, &both), &[root], 2, "fix");
    fixture.branch("main", fix);
    let selection = mine(&fixture, &Mine::default());
    assert_eq!(selection.verdicts[0].reason, Some(RejectReason::PathCollision));
    assert!(selection.verdicts[0].detail.contains("d/readme"));
}

#[test]
fn b015_nothing_of_a_repository_is_executed() {
    let fixture = Fixture::new();
    let attributes: (&[u8], u32, &[u8]) = (b".gitattributes", PLAIN, b"* filter=x diff=x\n");
    let root = fixture.commit(state(&fixture, 0, &[attributes]), &[], 1, "root");
    let fix = fixture.commit(state(&fixture, 1, &[attributes]), &[root], 2, "fix");
    fixture.branch("main", fix);
    let marker = fixture.path().join("marker");
    let touch = format!("touch {}", marker.display());
    let config = format!(
        "[core]\nbare = true\nfsmonitor = {touch}\nhooksPath = {0}/hooks\n[filter \"x\"]\nsmudge = {touch}\nclean = {touch}\nprocess = {touch}\nrequired = true\n[diff]\nexternal = {touch}\n[diff \"x\"]\ncommand = {touch}\ntextconv = {touch}\n",
        fixture.path().display()
    );
    fs::write(fixture.path().join("config"), config).unwrap();
    fs::create_dir_all(fixture.path().join("hooks")).unwrap();
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        let path = fixture.path().join("hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\n{touch}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(mine(&fixture, &Mine::default()).candidates.len(), 1);
    let dir = tempfile::tempdir().unwrap();
    Repo::open(fixture.path()).unwrap().write_template(&fix.to_string(), dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("pkg/a.py")).unwrap(), b"def f():\n    return 1\n");
    assert!(!marker.exists());
    assert!(!fs::read_to_string(dir.path().join(".git/config")).unwrap().contains("touch"));
}

#[test]
fn a_change_that_comes_twice_is_kept_once() {
    let fixture = Fixture::new();
    let numbers = [0, 1, 0, 1];
    let mut ids: Vec<Oid> = Vec::new();
    for (number, time) in numbers.into_iter().zip(1..) {
        let parents: Vec<Oid> = ids.last().copied().into_iter().collect();
        ids.push(fixture.commit(state(&fixture, number, &[]), &parents, time, "step"));
    }
    fixture.branch("main", ids[3]);
    let selection = mine(&fixture, &Mine::default());
    let found = reasons(&selection);
    assert_eq!(found[&ids[1].to_string()], None);
    assert_eq!(found[&ids[2].to_string()], None, "the revert is another change");
    assert_eq!(found[&ids[3].to_string()], Some(RejectReason::DuplicateChange));
    let asked = Mine { commits: vec![ids[3].to_string(), ids[1].to_string()[..8].to_owned()], ..Mine::default() };
    let selection = mine(&fixture, &asked);
    let fixes: Vec<String> = selection.candidates.iter().map(|candidate| candidate.fix_commit.clone()).collect();
    assert_eq!(fixes, [ids[3].to_string(), ids[1].to_string()]);
}

#[test]
fn the_limit_keeps_the_newest_and_names_the_rest() {
    let fixture = Fixture::new();
    let ids = line(&fixture);
    let selection = mine(&fixture, &Mine { limit: Some(Limit::Candidates(2)), ..Mine::default() });
    let fixes: Vec<String> = selection.candidates.iter().map(|candidate| candidate.fix_commit.clone()).collect();
    assert_eq!(fixes, [ids[4].to_string(), ids[3].to_string()]);
    let found = reasons(&selection);
    assert_eq!(found[&ids[1].to_string()], Some(RejectReason::BeyondLimit));
    let whole = mine(&fixture, &Mine::default());
    assert_eq!(whole, mine(&fixture, &Mine::default()));
    assert_eq!(whole.candidates.len(), 4);
}

#[test]
fn a_number_of_tasks_ranks_the_candidates_and_what_is_not_needed_is_left_out() {
    let fixture = Fixture::new();
    line(&fixture);
    let mut selection = mine(&fixture, &Mine { limit: Some(Limit::Tasks(2)), ..Mine::default() });
    let ranked: Vec<String> = selection.candidates.iter().map(|candidate| candidate.fix_commit.clone()).collect();
    assert_eq!(ranked.len(), 4);
    let detail = |selection: &Selection, commit: &str| {
        selection.verdicts.iter().find(|verdict| verdict.commit == commit).unwrap().detail.clone()
    };
    assert!(detail(&selection, &ranked[0]).contains("; rank 1: "), "{}", detail(&selection, &ranked[0]));
    let whole = selection.clone();
    selection.keep(3);
    assert_eq!(selection.candidates, whole.candidates[..3]);
    let found = reasons(&selection);
    assert_eq!((found[&ranked[2]], found[&ranked[3]]), (None, Some(RejectReason::BeyondLimit)));
    selection.keep(9);
    assert_eq!(selection.candidates, whole.candidates[..3]);
}

#[test]
fn what_is_asked_for_and_not_there_is_an_error_that_names_it() {
    let fixture = Fixture::new();
    line(&fixture);
    let run = |settings: &Mine| format!("{:#}", select(&source(&fixture), settings, &|_, _| ()).unwrap_err());
    let absent = "0123456789012345678901234567890123456789";
    assert!(run(&Mine { commits: vec![absent.into()], ..Mine::default() }).contains(absent));
    assert!(run(&Mine { commits: vec!["main".into(), "no-such".into()], ..Mine::default() }).contains("no-such"));
    assert!(run(&Mine { branch: Some("gone".into()), ..Mine::default() }).contains("gone"));
    assert!(run(&Mine { since: Some("yesterday".into()), ..Mine::default() }).contains("yesterday"));
}

#[test]
fn tiers_and_limits_decide_by_source_lines() {
    let fixture = Fixture::new();
    let lines = |n: usize| -> Vec<u8> { (0..n).flat_map(|n| format!("x{n} = 1\n").into_bytes()).collect() };
    let mut ids = vec![fixture.commit(state(&fixture, 0, &[]), &[], 1, "root")];
    for (n, number) in [(100, 1), (301, 2), (900, 3)] {
        let text = lines(n);
        let tree = state(&fixture, number, &[(b"pkg/b.py", PLAIN, &text)]);
        ids.push(fixture.commit(tree, &[ids[0]], 2, "Add b"));
    }
    let run = |id: Oid, settings: Mine| {
        let selection = mine(&fixture, &Mine { commits: vec![id.to_string()], ..settings });
        (selection.candidates.first().map(|candidate| candidate.tier), selection.verdicts[0].reason)
    };
    assert_eq!(run(ids[1], Mine::default()), (Some(1), None));
    assert_eq!(run(ids[2], Mine::default()), (Some(2), None));
    assert_eq!(run(ids[3], Mine::default()), (None, Some(RejectReason::TooManyLines)));
    assert_eq!(run(ids[3], Mine { max_source_lines: 1000, ..Mine::default() }), (Some(3), None));
    let only_first = || Mine { tiers: vec![1], ..Mine::default() };
    assert_eq!(run(ids[2], only_first()), (None, Some(RejectReason::TooManyLines)));
}
