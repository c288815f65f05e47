//! What the git layer promises, on repositories made for the purpose.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use git2::{ObjectType, Oid};

use super::{
    EXECUTABLE, GITLINK, PLAIN, Repo, SYMLINK,
    fixture::{File, Fixture},
};
use crate::record::{
    bytes::ByteText,
    patch::{Edit, FileContent},
};

const ELSEWHERE: &[u8] = b"1111111111111111111111111111111111111111";

fn edits_between(repo: &Repo, old: Oid, new: Oid) -> Vec<Edit> {
    let deltas = repo.compare(repo.commit(old).unwrap().tree, repo.commit(new).unwrap().tree).unwrap();
    deltas
        .into_iter()
        .map(|delta| Edit {
            path: ByteText(delta.path),
            content: delta
                .new
                .map(|node| FileContent { mode: node.mode, bytes: ByteText(repo.content(node.oid).unwrap()) }),
        })
        .collect()
}

fn text(path: &str, bytes: &[u8]) -> Edit {
    let content = FileContent { mode: PLAIN, bytes: ByteText::new(bytes) };
    Edit { path: path.into(), content: Some(content) }
}

/// A commit with one file `a.txt` of 60 numbered lines, a link, a submodule and a directory.
fn base(fixture: &Fixture) -> Oid {
    let numbered: String = (1..=60).map(|number| ["line ", &number.to_string(), "\n"].concat()).collect();
    let tree = fixture.tree(&[
        (b"a.txt", PLAIN, numbered.as_bytes()),
        (b"bin", PLAIN, b"\0one"),
        (b"d/inner.txt", PLAIN, b"x\n"),
        (b"link", SYMLINK, b"/tmp"),
        (b"sub", GITLINK, ELSEWHERE),
    ]);
    fixture.commit(tree, &[], 1_500_000_000, "base")
}

#[test]
fn b019_b021_b023_b025_a_patch_of_any_change_gives_the_commits_tree() {
    let fixture = Fixture::new();
    let utf16: Vec<u8> = [vec![0xff, 0xfe], "s = 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect()].concat();
    let utf16_new: Vec<u8> = [vec![0xff, 0xfe], "s = 2\n".encode_utf16().flat_map(u16::to_le_bytes).collect()].concat();
    let noise: Vec<u8> = (0..9000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let big_new = [noise.as_slice(), b"tail"].concat();
    let latin_tree = [
        ("ete\u{e9}.css".as_bytes().to_vec(), b"1".to_vec()),
        (b"ete\xe9.css".to_vec(), b"caf\xe9 \x1b[0m\rdoo\nx\n".to_vec()),
    ];
    let states: Vec<Vec<File<'_>>> = vec![
        vec![(b"ok.py", PLAIN, b"a = 1\n"), (&latin_tree[1].0, PLAIN, &latin_tree[1].1)],
        vec![(b"ok.py", PLAIN, b"a = 2\n"), (&latin_tree[1].0, PLAIN, b"caf\xe9 \x1b[1m\rdoo\nx\n")],
        vec![(b"ok.py", EXECUTABLE, b"a = 2\n"), (b"empty", PLAIN, b""), (&latin_tree[0].0, PLAIN, b"caf\xe9")],
        vec![(b"ok.py", SYMLINK, b"a = 2\n"), (b"l", SYMLINK, b"one"), (b"empty", EXECUTABLE, b"")],
        vec![(b"ok.py/x", PLAIN, b"a"), (b"l", SYMLINK, b"two"), (b"res.rc", PLAIN, &utf16), (b"noise", PLAIN, &noise)],
        vec![
            (b"ok.py", PLAIN, b"a\n"),
            (b"l/l", PLAIN, b"\n"),
            (b"res.rc", PLAIN, &utf16_new),
            (b"noise", PLAIN, &big_new),
        ],
        vec![
            (b".gitattributes", PLAIN, b"* text eol=crlf\n"),
            ("naïve.txt".as_bytes(), PLAIN, b"a\r\nb\r\nc\nd\re\r\n"),
            (b"tab\tq\"uote.txt", PLAIN, b"1"),
            (b"x b/y.txt", PLAIN, b"1\n"),
            (b"sp ace.bin", PLAIN, b"\0\x01"),
            (b"new\nline", EXECUTABLE, b""),
            (b"back\\slash", PLAIN, b"\n\n\n"),
        ],
        vec![
            (b".gitattributes", PLAIN, b"* text eol=crlf\n"),
            ("naïve.txt".as_bytes(), PLAIN, b"a\r\nB\r\nc\nd\rE\r\n"),
            (b"tab\tq\"uote.txt", PLAIN, b"1\n"),
            (b"x b/y.txt", EXECUTABLE, b"1\n"),
            (b"sp ace.bin", PLAIN, b"\0\x02"),
            (b"new\nline", PLAIN, b""),
            (b"back\\slash", PLAIN, b"\n\n"),
        ],
        vec![(b"a", PLAIN, "x = \"\u{2028}diff --git a/zz b/zz\"\n\x0c\n--- a/q\n+++ b/q\n@@ -1 +1 @@\n".as_bytes())],
    ];
    let repo = fixture.open();
    let mut last: Option<Oid> = None;
    let commits: Vec<Oid> = states
        .iter()
        .zip(0..)
        .map(|(files, time)| {
            let id = fixture.commit(fixture.tree(files), last.as_slice(), time, "step");
            last = Some(id);
            id
        })
        .collect();
    for pair in commits.windows(2).chain(commits.iter().rev().copied().collect::<Vec<_>>().windows(2)) {
        let (old, new) = (pair[0].to_string(), pair[1].to_string());
        let edits = edits_between(&repo, pair[0], pair[1]);
        let patch = repo.diff(&old, &edits).unwrap();
        assert_eq!(patch, repo.diff(&old, &edits).unwrap());
        let applied = repo.apply(&old, &patch).unwrap_or_else(|why| panic!("{why}\n{patch}"));
        assert_eq!(repo.tree_with(&old, &applied).unwrap(), repo.tree(&new).unwrap(), "{patch}");
        let stored: ByteText = serde_json::from_str(&serde_json::to_string(&patch).unwrap()).unwrap();
        assert_eq!(repo.apply(&old, &stored).unwrap(), applied);
    }
}

#[test]
fn b022_the_last_newline_may_be_missing_or_doubled() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    for target in ["line 1\n", "no newline at end"] {
        let edits = [text("d/inner.txt", target.as_bytes())];
        let patch = repo.diff(&commit, &edits).unwrap();
        assert_eq!(patch.0.last(), Some(&b'\n'));
        for end in ["", "\n", "\n\n", "\n\n\n"] {
            let mut bytes = patch.0.clone();
            bytes.pop();
            bytes.extend(end.bytes());
            assert_eq!(repo.apply(&commit, &ByteText(bytes)).unwrap(), edits);
        }
    }
    assert_eq!(repo.apply(&commit, &"".into()).unwrap(), []);
    assert_eq!(repo.apply(&commit, &"\n \n".into()).unwrap(), []);
}

#[test]
fn b024_a_header_inside_a_line_is_content() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let edits = [text("d/inner.txt", "x = \"\u{2028}diff --git a/zz b/zz\"\n\x0c\ndiff --git a/q b/q\n".as_bytes())];
    let patch = repo.diff(&commit, &edits).unwrap();
    assert_eq!(repo.apply(&commit, &patch).unwrap(), edits);
}

#[test]
fn b029_patches_apply_whole_or_not_at_all() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let hunk = |at: usize, old: &str, new: &str| format!("@@ -{at},3 +{at},3 @@\n line 29\n-{old}\n+{new}\n line 31\n");
    let file = |hunk: &str| ByteText::from(format!("--- a/a.txt\n+++ b/a.txt\n{hunk}").as_str());
    let good = repo.apply(&commit, &file(&hunk(29, "line 30", "changed"))).unwrap();
    assert_eq!(good.len(), 1);
    assert_eq!(repo.apply(&commit, &file(&hunk(2, "line 30", "changed"))).unwrap(), good, "the only place it fits");
    let second = "--- a/d/inner.txt\n+++ b/d/inner.txt\n@@ -1 +1 @@\n-wrong\n+y\n";
    for bad in [
        file(&(hunk(29, "line 30", "changed") + second)),
        file(&hunk(29, "line 3O", "changed")),
        file("@@ -1,2 +1,2 @@\n line 1\n-changed\n+line 2\n"),
        file("@@ -29,3 +29,3 @@\n line 29\n-line 30\n+x\n"),
        file("@@ -29,2 +29,2 @@\n line 29\n-line 30\n+x\n line 31\n"),
        file("@@ -29,2 +29,2 @@\n line 29\n line 30\n"),
        file("@@ -70,0 +71 @@\n+x\n"),
        ByteText::from("nothing here\n"),
    ] {
        assert!(repo.apply(&commit, &bad).is_err(), "{bad}");
    }
    let twice = fixture.tree(&[(b"a.txt", PLAIN, b"x\ny\nz\nq\nx\ny\nz\n")]);
    let twice = fixture.commit(twice, &[], 1, "twice").to_string();
    let patch = |at: usize| file(&format!("@@ -{at},3 +{at},3 @@\n x\n-y\n+Y\n z\n"));
    assert!(repo.apply(&twice, &patch(3)).unwrap_err().contains("several places"));
    assert_eq!(
        repo.apply(&twice, &patch(5)).unwrap()[0].content.as_ref().unwrap().bytes,
        "x\ny\nz\nq\nx\nY\nz\n".into()
    );
}

#[test]
fn b030_nothing_outside_of_the_tree_is_touched() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let create = |path: &str| format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n");
    let git_create =
        |path: &str| format!("diff --git a/{path} b/{path}\nnew file mode 100644\n{}", create(&format!("b/{path}")));
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n";
    let cases = [
        (create("b/../out.txt"), "leaves the tree"),
        (create("../out.txt"), "leaves the tree"),
        (create("/tmp/x"), "absolute"),
        (create("b//tmp/x"), "absolute"),
        (create("out.txt"), "prefix"),
        (git_create(".git/hooks/post-checkout"), "within `.git`"),
        (git_create(".GIT/config"), "within `.git`"),
        (git_create("d/.git/config"), "within `.git`"),
        (git_create("git~1/config"), "within `.git`"),
        (git_create("link/x"), "symbolic link `link`"),
        (git_create("sub/x"), "submodule `sub`"),
        (git_create("a.txt/x"), "file `a.txt`"),
        (git_create("d"), "is a directory"),
        (git_create("a.txt"), "exists already"),
        (format!("{link}{}", git_create("l/x")), "which the patch writes"),
        ("diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n".to_owned(), "submodule"),
        ("diff --git a/sub b/sub\ndeleted file mode 100644\n".to_owned(), "submodule"),
        ("diff --git a/a.txt b/../x\nrename from a.txt\nrename to ../x\n".to_owned(), "leaves the tree"),
        ("diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-line 1\n+x\n".to_owned(), "different"),
        ("diff --git a/link b/link\nindex 1..2 100644\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-/tmp\n\\ No newline at end of file\n+/x\n".to_owned(), "another kind"),
        ("diff --git a/bin b/bin\nindex 1..2 100644\nBinary files a/bin and b/bin differ\n".to_owned(), "without its data"),
        ("diff --git a/d/inner.txt b/d/inner.txt\ndeleted file mode 100644\n".to_owned(), "content behind"),
        ("diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100644\n".to_owned(), "changes nothing"),
    ];
    for (patch, expected) in cases {
        let why = match repo.apply(&commit, &patch.as_str().into()) {
            Err(why) => why,
            Ok(edits) => panic!("{patch}: {edits:?}"),
        };
        assert!(why.contains(expected), "{patch}: {why}");
    }
}

#[test]
fn renames_copies_and_mailed_patches_apply() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let patch = "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] swap\n\n---\n a.txt | 2 +-\n\n\
        diff --git a/bin b/d/inner.txt\nsimilarity index 100%\nrename from bin\nrename to d/inner.txt\n\
        diff --git a/d/inner.txt b/bin\nsimilarity index 100%\nrename from d/inner.txt\nrename to bin\n\
        diff --git a/bin b/copy\nsimilarity index 90%\ncopy from bin\ncopy to copy\n-- \n2.43.0\n\n";
    let edits = repo.apply(&commit, &patch.into()).unwrap();
    let found: BTreeMap<String, Vec<u8>> =
        edits.into_iter().map(|edit| (edit.path.lossy(), edit.content.unwrap().bytes.0)).collect();
    let expected = [("bin", b"x\n".as_slice()), ("copy", b"\0one"), ("d/inner.txt", b"\0one")];
    assert_eq!(found, expected.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).into());
}

#[test]
fn removals_come_before_writes() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let edits = [Edit { path: "link".into(), content: None }, text("link/x", b"x\n"), text("a.txt", b"short\n")];
    let patch = repo.diff(&commit, &edits).unwrap();
    let applied = repo.apply(&commit, &patch).unwrap();
    let paths: Vec<String> = applied.iter().map(|edit| edit.path.lossy()).collect();
    assert_eq!(paths, ["link", "a.txt", "link/x"]);
    assert!(applied[0].content.is_none());
}

#[test]
fn b009_submodules_are_kept_and_never_looked_up() {
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let repo = fixture.open();
    let names: Vec<String> = repo.files(&commit).unwrap().into_iter().map(|(path, _)| path.lossy()).collect();
    assert_eq!(names, ["a.txt", "bin", "d/inner.txt", "link"]);
    assert_eq!(repo.read(&commit, b"sub").unwrap(), None);
    assert_eq!(repo.read(&commit, b"d/inner.txt").unwrap(), Some(b"x\n".to_vec()));
    assert_eq!(repo.read(&commit, b"link/inner.txt").unwrap(), None);
}

#[test]
fn b094_a_template_holds_the_tree_and_nothing_else() {
    let fixture = Fixture::new();
    let base = base(&fixture);
    let secret = b"the fix, which nobody may see\n";
    let tree = fixture.tree(&[(b"a.txt", EXECUTABLE, secret), (b"d/inner.txt", PLAIN, b"x\n")]);
    let fix = fixture.commit(tree, &[base], 1_600_000_000, "fix");
    fixture.branch("main", fix);
    let dir = tempfile::tempdir().unwrap();
    let repo = fixture.open();
    repo.write_template(&base.to_string(), dir.path()).unwrap();

    let made = git2::Repository::open(dir.path()).unwrap();
    let mut objects = Vec::new();
    made.odb()
        .unwrap()
        .foreach(|id| {
            objects.push(*id);
            true
        })
        .unwrap();
    // The synthetic commit, two trees, four blobs.
    assert_eq!(objects.len(), 7);
    let hidden = [base, fix, tree, Oid::hash_object(ObjectType::Blob, secret).unwrap()];
    assert!(hidden.iter().all(|id| !objects.contains(id)));
    let head = made.head().unwrap();
    assert_eq!(head.name().unwrap(), "refs/heads/main");
    let commit = head.peel_to_commit().unwrap();
    assert_eq!(commit.tree_id().to_string(), repo.tree(&base.to_string()).unwrap());
    assert_eq!((commit.parent_count(), commit.time().seconds()), (0, 1_500_000_000));
    assert_eq!(made.references().unwrap().count(), 1);
    assert!(made.statuses(None).unwrap().is_empty());
    assert!(dir.path().join("sub").is_dir());
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("/tmp"));
    for absent in [".git/hooks", ".git/logs", ".git/packed-refs", ".git/description"] {
        assert!(!dir.path().join(absent).exists(), "{absent}");
    }
}

#[test]
fn b023_templates_hold_the_bytes_of_the_blobs() {
    let fixture = Fixture::new();
    let files: [(&[u8], u32, &[u8]); 5] = [
        (b".gitattributes", PLAIN, b"* text eol=crlf\nout export-ignore\n*.bin filter=lfs diff=lfs\n"),
        (b"crlf.txt", PLAIN, b"a\r\nb\nc\rd\r\n"),
        (b"run", EXECUTABLE, b"#!/bin/sh\n"),
        (b"out", PLAIN, b"kept\n"),
        (b"x.bin", PLAIN, b"version https://git-lfs.github.com/spec/v1\n"),
    ];
    let commit = fixture.commit(fixture.tree(&files), &[], 5, "x").to_string();
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        fixture.open().write_template(&commit, dir.path()).unwrap();
    }
    for (path, mode, bytes) in files {
        let path = std::str::from_utf8(path).unwrap();
        let [first, second] = dirs.each_ref().map(|dir| dir.path().join(path));
        assert_eq!(fs::read(&first).unwrap(), bytes);
        let meta = fs::metadata(&first).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, mode & 0o777, "{path}");
        assert_eq!(meta.modified().unwrap(), fs::metadata(second).unwrap().modified().unwrap());
    }
    assert!(git2::Repository::open(dirs[0].path()).unwrap().statuses(None).unwrap().is_empty());
}

#[test]
fn b030_a_tree_with_a_git_directory_is_not_written() {
    let fixture = Fixture::new();
    let tree = fixture.tree(&[(b".GIT/config", PLAIN, b"x"), (b"ok", PLAIN, b"x")]);
    let commit = fixture.commit(tree, &[], 5, "x").to_string();
    let dir = tempfile::tempdir().unwrap();
    let error = fixture.open().write_template(&commit, dir.path()).unwrap_err();
    assert!(format!("{error:#}").contains("within `.git`"), "{error:#}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn b011_formats_that_cannot_be_read_are_named() {
    let fixture = Fixture::new();
    for (config, expected) in [
        ("repositoryformatversion = 1\n[extensions]\nobjectformat = sha256\n", "object format"),
        ("repositoryformatversion = 1\n[extensions]\nsomethingNew = true\n", "somethingnew"),
    ] {
        fs::write(fixture.path().join("config"), format!("[core]\nbare = true\n{config}")).unwrap();
        let error = Repo::open(fixture.path()).err().unwrap();
        let text = format!("{error:#}").to_lowercase();
        assert!(text.contains("open repository") && text.contains(expected), "{text}");
        assert!(error.downcast_ref::<super::Hinted>().is_some());
    }
    let empty = tempfile::tempdir().unwrap();
    let error = Repo::open(empty.path()).err().unwrap();
    assert!(format!("{error:#}").contains("not a git repository"), "{error:#}");
    assert!(format!("{:#}", Repo::open(&empty.path().join("gone")).err().unwrap()).contains("No such file"));
}

#[test]
#[expect(clippy::print_stderr, reason = "a check that cannot be made says so")]
fn b013_a_repository_of_another_user_is_refused_with_a_way_out() {
    let fixture = Fixture::new();
    if let Err(error) = std::os::unix::fs::chown(fixture.path(), Some(12345), None) {
        let required = std::env::var("CURATE_REQUIRE").unwrap_or_default();
        assert!(required.split(',').all(|it| it != "root"), "give a directory away: {error}");
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    let error = Repo::open(fixture.path()).err().unwrap();
    assert!(format!("{error:#}").contains("belongs to another user"), "{error:#}");
    assert!(error.downcast_ref::<super::Hinted>().unwrap().hint.contains("safe.directory"));
}

#[test]
fn revisions_are_ids_prefixes_branches_and_tags() {
    let fixture = Fixture::new();
    let root = base(&fixture);
    let tip = fixture.raw_commit(
        fixture.tree(&[(b"a", PLAIN, b"")]),
        &[root],
        "author T <t 5\ncommitter T <t> 5 +0000",
        b"x",
    );
    fixture.branch("main", tip);
    let tag = fixture.object(
        ObjectType::Tag,
        format!("object {root}\ntype commit\ntag v1\ntagger T <t@e> 5 +0000\n\nx\n").as_bytes(),
    );
    fs::write(fixture.path().join("refs/tags/v1"), format!("{tag}\n")).unwrap();
    let repo = fixture.open();
    for (name, expected) in
        [("HEAD", tip), ("main", tip), ("refs/heads/main", tip), ("v1", root), (&tip.to_string()[..7], tip)]
    {
        assert_eq!(repo.resolve(name).unwrap(), expected.to_string(), "{name}");
    }
    for absent in ["none", "12345678", &Oid::ZERO_SHA1.to_string(), "", "a b", "-x"] {
        let error = repo.resolve(absent).expect_err(absent);
        assert!(format!("{error:#}").contains(&format!("`{absent}`")), "{error:#}");
    }
}

#[test]
fn b028_a_patch_is_never_applied_to_nothing() {
    // In a directory below another work tree, `git apply` succeeds and changes nothing.
    let outer = tempfile::tempdir().unwrap();
    git2::Repository::init(outer.path()).unwrap();
    let fixture = Fixture::new();
    let commit = base(&fixture).to_string();
    let dir = outer.path().join("inner");
    fs::create_dir(&dir).unwrap();
    fixture.open().write_template(&commit, &dir).unwrap();
    let repo = Repo::open(&dir).unwrap();
    let patch = "--- a/d/inner.txt\n+++ b/d/inner.txt\n@@ -1 +1 @@\n-x\n+y\n".into();
    let edits = repo.apply("HEAD", &patch).unwrap();
    assert_eq!(edits, [text("d/inner.txt", b"y\n")]);
    assert_ne!(repo.tree_with("HEAD", &edits).unwrap(), repo.tree("HEAD").unwrap());
    let elsewhere = "--- a/inner/d/inner.txt\n+++ b/inner/d/inner.txt\n@@ -1 +1 @@\n-x\n+y\n".into();
    assert!(repo.apply("HEAD", &elsewhere).unwrap_err().contains("there is no file"));
}
