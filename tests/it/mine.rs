//! Mining of histories kept as text, templates seen with git's own eyes, and URLs.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use curate::{
    cache::Cache,
    config::{Mine, MineUnit},
    git::{Hinted, Repo},
    history,
    mine::{self, Selection},
    process::{self, Command, Exit},
    record::candidate::{RejectReason, Role, Unit},
    sources::{self, Source},
};
use tempfile::TempDir;

/// A history of `tests/fixtures`, rebuilt.
struct Rebuilt {
    dir: TempDir,
    ids: HashMap<String, String>,
}

impl Rebuilt {
    fn new(name: &str) -> Rebuilt {
        let dir = tempfile::tempdir().unwrap();
        let history = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let ids = history::rebuild(&history, dir.path()).unwrap();
        Rebuilt { dir, ids }
    }

    fn select(&self, settings: &Mine) -> Selection {
        let path = self.dir.path().to_owned();
        let source = Source { name: "example/shop".into(), given: "shop".into(), path, manifest: None };
        mine::select(&source, settings, &|_, _| ()).unwrap()
    }

    /// Returns reasons by the commits' names; candidates have none.
    fn reasons(&self, selection: &Selection) -> BTreeMap<&str, Option<RejectReason>> {
        let names: HashMap<&str, &str> = self.ids.iter().map(|(name, id)| (id.as_str(), name.as_str())).collect();
        selection.verdicts.iter().map(|verdict| (names[verdict.commit.as_str()], verdict.reason)).collect()
    }
}

#[test]
fn every_commit_of_a_history_gets_its_verdict() {
    let shop = Rebuilt::new("verdicts");
    let selection = shop.select(&Mine::default());
    let expected = BTreeMap::from([
        ("base", Some(RejectReason::RootCommit)),
        ("fix-zero", None),
        ("docs-only", Some(RejectReason::NoSourceChange)),
        ("source-only", Some(RejectReason::NoTestChange)),
        ("test-only", Some(RejectReason::NoSourceChange)),
        ("comments", Some(RejectReason::CommentOrFormatOnly)),
        ("vendored", Some(RejectReason::GeneratedOrVendored)),
        ("submodule", Some(RejectReason::SubmoduleOnly)),
        ("fewer-tests", Some(RejectReason::NoTestChange)),
        ("split-test", Some(RejectReason::PartOfMerge)),
        ("split-fix", Some(RejectReason::PartOfMerge)),
        ("beside", Some(RejectReason::NoSourceChange)),
        ("merge", None),
        ("fix-again", None),
    ]);
    assert_eq!(shop.reasons(&selection), expected);
    assert!(selection.verdicts.iter().all(|verdict| !verdict.detail.is_empty()));
    let single = shop.reasons(&shop.select(&Mine { unit: MineUnit::Commit, ..Mine::default() }))["merge"];
    assert_eq!(single, Some(RejectReason::MergeCommit));
}

#[test]
fn a_candidate_says_what_its_change_is() {
    let shop = Rebuilt::new("verdicts");
    let asked = Mine { commits: vec![shop.ids["fix-zero"].clone()], ..Mine::default() };
    let selection = shop.select(&asked);
    let candidate = &selection.candidates[0];
    let roles: Vec<(String, Role)> =
        candidate.changes.iter().map(|change| (change.path.lossy(), change.role)).collect();
    let expected = [("README.md", Role::Other), ("shop/ratio.py", Role::Source), ("tests/test_ratio.py", Role::Test)];
    assert_eq!(roles, expected.map(|(path, role)| (path.to_owned(), role)));
    assert_eq!((candidate.unit, candidate.tier, candidate.mentions_fix), (Unit::Commit, 1, true));
    assert_eq!((candidate.n_source_files, candidate.n_source_lines), (1, 2));
    assert_eq!(candidate.base_commit, shop.ids["base"]);
    assert_eq!(candidate.subject(), "Fix the ratio of nothing (#3)");
    let source = candidate.source_patch.lossy();
    assert!(source.contains("a/README.md") && source.contains("+    if whole == 0:") && !source.contains("test_"));
    assert!(candidate.test_patch.lossy().starts_with("diff --git a/tests/test_ratio.py b/tests/test_ratio.py\nindex "));
}

/// Runs git without anybody's configuration.
fn git(dir: &Path, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let env = [
        ("PATH", path),
        ("HOME", home.path().into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
    ];
    let finished = process::run(&Command {
        argv: ["git", "-c", "safe.directory=*", "-C", dir.to_str().unwrap()]
            .iter()
            .chain(arguments)
            .map(|argument| (*argument).into())
            .collect(),
        env: env.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        cwd: None,
        stdin: Vec::new(),
        wall: Duration::from_mins(1),
        max_output_bytes: 1 << 20,
    })
    .unwrap();
    let output = finished.stdout.text();
    assert_eq!(finished.exit, Exit::Code(0), "{arguments:?}: {output}{}", finished.stderr.text());
    output
}

#[test]
fn repositories_of_one_name_are_kept_apart_and_a_moved_one_is_taken_up() {
    let place = tempfile::tempdir().unwrap();
    let fixture = |name: &str, directory: &str| {
        let target = place.path().join(directory).join("shop");
        let history = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        fs::create_dir_all(&target).unwrap();
        history::rebuild(&history, &target).unwrap();
        target
    };
    let dataset = place.path().join("dataset");
    let mine = |repository: &Path| {
        let words = [repository, &dataset].map(|path| path.to_str().unwrap().to_owned());
        let argv = [env!("CARGO_BIN_EXE_curate"), "mine", "--repo", &words[0], "--dataset", &words[1]];
        let argv = [&argv[..], &["--stop-after", "select"]].concat();
        crate::support::spawn(&argv, &[("CURATE_CACHE_DIR", &place.path().join("cache"))], 60).unwrap()
    };
    assert_eq!(mine(&fixture("verdicts", "a")).exit, Exit::Code(0));
    assert_eq!(mine(&fixture("verdicts", "moved")).exit, Exit::Code(0));
    let refused = mine(&fixture("repos/new-keyword", "b"));
    let said = refused.stderr.text();
    assert_eq!(refused.exit, Exit::Code(1), "{said}");
    assert!(said.contains("another repository called `shop`") && said.contains("--dataset"), "{said}");
}

#[test]
fn b094_git_finds_a_clean_template_and_no_trace_of_the_fix() {
    let shop = Rebuilt::new("verdicts");
    let (base, fix) = (&shop.ids["submodule"], &shop.ids["fewer-tests"]);
    let repo = Repo::open(shop.dir.path()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    repo.write_template(base, dir.path()).unwrap();
    assert_eq!(git(dir.path(), &["status", "--porcelain"]), "");
    git(dir.path(), &["fsck", "--full", "--strict"]);
    assert_eq!(git(dir.path(), &["log", "--all", "--format=%an|%ae|%s|%T"]).trim_end(), {
        format!("curate|curate@localhost|base|{}", repo.tree(base).unwrap())
    });
    let objects = git(dir.path(), &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let reachable = git(dir.path(), &["rev-list", "--objects", "--all"]);
    assert_eq!(objects.lines().count(), reachable.lines().count());
    for hidden in [base.clone(), fix.clone(), repo.tree(fix).unwrap()] {
        assert!(!objects.contains(&hidden));
    }
    // A copy has other inodes and change times; git must not read every file for that.
    let copy = tempfile::tempdir().unwrap();
    copy_tree(dir.path(), copy.path());
    assert_eq!(git(copy.path(), &["diff-files"]), "", "the index must match the copy without a refresh");
    fs::write(copy.path().join("README.md"), "changed\n").unwrap();
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), " M README.md\n");
}

/// Copies files with their times.
fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            fs::OpenOptions::new().append(true).open(&target).unwrap().set_modified(modified).unwrap();
        }
    }
}

#[test]
fn b015_a_url_is_mirrored_once_and_fetched_again_on_request() {
    let shop = Rebuilt::new("verdicts");
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::at(&place.path().join("cache")).unwrap();
    let origin: PathBuf = place.path().join("shop.git");
    fs::rename(shop.dir.path(), &origin).unwrap();
    let marker = place.path().join("marker");
    let hook = origin.join("hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let url = format!("file://{}", origin.display());
    let source = sources::resolve(&cache, &url, false).unwrap();
    assert_eq!((source.name.as_str(), source.given.as_str()), ("shop", url.as_str()));
    let mirror = Repo::open(&source.path).unwrap();
    assert_eq!(mirror.resolve("HEAD").unwrap(), shop.ids["fix-again"]);

    fs::write(origin.join("refs/heads/main"), format!("{}\n", shop.ids["merge"])).unwrap();
    assert_eq!(sources::resolve(&cache, &url, false).unwrap(), source);
    assert_eq!(Repo::open(&source.path).unwrap().resolve("HEAD").unwrap(), shop.ids["fix-again"]);
    assert_eq!(sources::resolve(&cache, &url, true).unwrap(), source);
    assert_eq!(Repo::open(&source.path).unwrap().resolve("HEAD").unwrap(), shop.ids["merge"]);

    fs::remove_dir_all(&origin).unwrap();
    assert_eq!(sources::resolve(&cache, &url, false).unwrap(), source);
    let error = sources::resolve(&cache, &url, true).unwrap_err();
    assert!(format!("{error:#}").contains("fetch `file://"), "{error:#}");
    let error = sources::resolve(&cache, &format!("{url}x"), false).unwrap_err();
    assert!(format!("{error:#}").contains("does not"), "{error:#}");
    assert!(error.downcast_ref::<Hinted>().is_some());
    assert!(!marker.exists());
}

#[test]
fn paths_are_made_absolute_and_named_after_their_origin() {
    let shop = Rebuilt::new("verdicts");
    let cache = Cache::at(&shop.dir.path().join("cache")).unwrap();
    let given = shop.dir.path().to_str().unwrap();
    let source = sources::resolve(&cache, given, false).unwrap();
    assert_eq!(source.path, shop.dir.path().canonicalize().unwrap());
    assert_eq!(source.name, shop.dir.path().file_name().unwrap().to_str().unwrap());
    let config = shop.dir.path().join("config");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}[remote \"origin\"]\n\turl = https://user:pw@git.example.org/owner/shop.git\n"))
        .unwrap();
    assert_eq!(sources::resolve(&cache, given, false).unwrap().name, "owner/shop");
    let error = sources::resolve(&cache, "no-such-thing", false).unwrap_err();
    assert!(format!("{error:#}").contains("no-such-thing"), "{error:#}");
    let empty = tempfile::tempdir().unwrap();
    let error = sources::resolve(&cache, empty.path().to_str().unwrap(), false).unwrap_err();
    assert!(format!("{error:#}").contains("not a git repository"), "{error:#}");
}
