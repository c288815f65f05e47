//! Workspaces: edits in, changes out, over overlays and over copies.

use std::os::unix::fs::PermissionsExt;

use curate::record::patch::Edit;

use super::*;
use crate::support::{remove, with_mode, write};

const MAX: u64 = 1 << 20;

/// Runs a check with both kinds of workspace.
fn both(check: impl Fn(&Place, &dyn Fn(&[Edit]) -> Workspace)) {
    each(|place| {
        fs::set_permissions(place.template.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let (template, scratch) = (place.template.path(), place.scratch.path());
        check(place, &|edits| Workspace::create(template, scratch, edits).unwrap());
        check(place, &|edits| Workspace::create_copy(template, scratch, edits).unwrap());
    });
}

#[test]
fn edits_come_back_as_changes() {
    both(|_, create| {
        let sets: [&[Edit]; 12] = [
            &[],
            &[write("README", "other\n")],
            &[write("new/deep/file", "x"), remove("src/a.py")],
            &[with_mode("README", 0o100_755, "read me\n"), with_mode("run.sh", 0o100_644, "#!/bin/sh\necho ran\n")],
            &[with_mode("link", 0o120_000, "README"), with_mode("src/a.py", 0o120_000, "/etc/passwd")],
            // A directory becomes a file, a link, or goes.
            &[
                write("src", "file"),
                remove("src/a.py"),
                remove("src/b.py"),
                remove("src/deep/c.py"),
                remove("src/deep/d.py"),
            ],
            &[remove("src/deep/c.py"), remove("src/deep/d.py")],
            // A file or link becomes a directory.
            &[remove("README"), write("README/x", "x"), remove("link"), write("link/y", "y")],
            &[write("link", "no link any more"), write("src/deep/c.py", "")],
            &[write("we ird\n\u{7f}名", "x"), write("-rf", "y")],
            &[write("a/.git/config", "nested")],
            &[remove("src/a.py"), remove("src/b.py"), remove("src/deep/c.py"), write("src/deep/d.py", "D")],
        ];
        for edits in sets {
            let mut wanted = edits.to_vec();
            wanted.sort_by(|a, b| a.path.cmp(&b.path));
            assert_eq!(create(edits).changes(MAX).unwrap(), wanted);
        }
        let edits =
            [remove("src"), write("src/deep/new", "n"), remove("absent"), write("run.sh", "x"), remove(".git/HEAD")];
        let wanted = [
            remove("src/a.py"),
            remove("src/b.py"),
            remove("src/deep/c.py"),
            remove("src/deep/d.py"),
            write("src/deep/new", "n"),
        ];
        let changes = create(&edits).changes(MAX).unwrap();
        let wanted: Vec<Edit> = [write("run.sh", "x")].into_iter().chain(wanted).collect();
        assert_eq!(changes, wanted);
    });
}

#[test]
fn edits_are_seen_inside() {
    both(|place, create| {
        let workspace = create(&[
            remove("src/a.py"),
            write("src/deep", "file now"),
            remove("link"),
            write("link/x", "x"),
            with_mode("to", 0o120_000, "README"),
            with_mode("go", 0o100_755, "#!/bin/sh\necho went\n"),
        ]);
        let script = "find . -path ./.git -prune -o -printf '%y %P\\n' | sort; cat src/deep to link/x; ./go; ./run.sh";
        let output = place.run(&spec(&workspace), script);
        assert_prints(
            &output,
            "d \nd link\nd src\nf README\nf go\nf link/x\nf run.sh\nf src/b.py\nf src/deep\nl to\n\
             file nowread me\nxwent\nran\n",
        );
    });
}

#[test]
fn changes_made_inside_come_back_right() {
    both(|place, create| {
        let workspace = create(&[]);
        let script = r#"
            echo changed >README
            chmod +x src/a.py; chmod 600 src/b.py
            rm -r src/deep; mkdir src/deep; echo d >src/deep/new
            rm link; mkdir link; ln -s ../README link/to
            mkdir -p empty/dir; mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
            touch run.sh; cp -p run.sh x; mv x run.sh
            echo x >.git/index; ln src/b.py hard; mkdir closed; echo c >closed/c; chmod 000 closed/c; chmod 000 closed
            printf 'z' >$'caf\351'"#;
        assert_eq!(place.run(&spec(&workspace), script).exit, Exit::Code(0));
        let mut wanted = vec![
            write("README", "changed\n"),
            with_mode("src/a.py", 0o100_755, "a = 1\n"),
            remove("src/deep/c.py"),
            remove("src/deep/d.py"),
            write("src/deep/new", "d\n"),
            remove("link"),
            with_mode("link/to", 0o120_000, "../README"),
            write("hard", "b = 2\n"),
            write("closed/c", "c\n"),
        ];
        let mut strange = write("", "z");
        strange.path = curate::record::bytes::ByteText::new(*b"caf\xe9");
        wanted.push(strange);
        wanted.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(workspace.changes(MAX).unwrap(), wanted);
    });
}

#[test]
fn a_tree_removed_whole_is_one_removal_per_file() {
    both(|place, create| {
        let workspace = create(&[write("extra", "e")]);
        place.run(&spec(&workspace), "rm -rf src extra link; echo back >src");
        let wanted = [remove("link"), write("src", "back\n")].into_iter();
        let gone = ["src/a.py", "src/b.py", "src/deep/c.py", "src/deep/d.py"].map(remove);
        assert_eq!(workspace.changes(MAX).unwrap(), wanted.chain(gone).collect::<Vec<_>>());
    });
}

#[test]
fn a_directory_moved_inside_is_a_removal_and_an_addition() {
    both(|place, create| {
        let workspace = create(&[]);
        assert_eq!(
            place.run(&spec(&workspace), "mv src/deep moved && rmdir .git/none 2>/dev/null; true").exit,
            Exit::Code(0)
        );
        let wanted = [
            write("moved/c.py", "c = 3\n"),
            write("moved/d.py", "d = 4\n"),
            remove("src/deep/c.py"),
            remove("src/deep/d.py"),
        ];
        assert_eq!(workspace.changes(MAX).unwrap(), wanted);
    });
}

#[test]
fn more_changes_than_allowed_are_refused_without_reading_them() {
    both(|place, create| {
        let workspace = create(&[]);
        assert_eq!(place.run(&spec(&workspace), "truncate -s 900M big").exit, Exit::Code(0));
        let started = Instant::now();
        let error = workspace.changes(MAX).unwrap_err().to_string();
        assert_eq!(error, "collect the changes: more than 1048576 bytes differ from the template");
        assert!(started.elapsed() < Duration::from_secs(1));
        place.run(&spec(&workspace), "rm big; for i in $(seq 300); do : >$i-with-a-longish-name; done");
        assert!(workspace.changes(3000).is_err());
        assert_eq!(workspace.changes(MAX).unwrap().len(), 300);
    });
}

#[test]
fn links_never_lead_the_host_out_of_the_workspace() {
    both(|place, create| {
        let outside = TempDir::new().unwrap();
        plant(outside.path(), &[("secret", "secret")]);
        let link = with_mode("out", 0o120_000, outside.path().as_os_str().as_encoded_bytes());
        let workspace = create(std::slice::from_ref(&link));
        place.run(&spec(&workspace), "rm -r src; ln -s /etc src");
        let changes = workspace.changes(MAX).unwrap();
        assert_eq!(changes[..2], [link.clone(), with_mode("src", 0o120_000, "/etc")]);
        let template = place.template.path();
        let error = Workspace::create(template, place.scratch.path(), &[link, write("out/secret", "x")]).unwrap_err();
        assert!(error.to_string().contains("lies below the file"), "{error:#}");
        // A template's own link to somewhere is replaced, not followed.
        std::os::unix::fs::symlink(outside.path(), template.join("away")).unwrap();
        drop(create(&[write("away/secret", "x"), write("link/a.py", "x")]));
        fs::remove_file(template.join("away")).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
        assert_eq!(fs::read_to_string(template.join("src/a.py")).unwrap(), "a = 1\n");
    });
}

#[test]
fn templates_with_special_characters_in_their_path_work() {
    for backend in backends() {
        let place = Place::new(backend);
        let template = place.template.path().join("a,b:c\\d e\"f=名");
        plant(&template, &[("x", "x\n"), ("y", "y\n")]);
        let scratch = place.scratch.path().join("s,c:r\\a t");
        fs::create_dir(&scratch).unwrap();
        let workspace = Workspace::create(&template, &scratch, &[remove("y")]).unwrap();
        assert_prints(&place.run(&spec(&workspace), "ls; cat x; rm x"), "x\nx\n");
        assert_eq!(workspace.changes(MAX).unwrap(), [remove("x"), remove("y")]);
    }
}

#[test]
fn unreadable_leftovers_are_removed_too() {
    both(|place, create| {
        let workspace = create(&[]);
        place.run(&spec(&workspace), "mkdir -p d/e; touch d/e/f; chmod 000 d/e; chmod 500 d; chmod 000 src");
    });
}
