//! Checks on this process itself: its death, its signals, its memory.
//!
//! They run this test binary again with `CURATE_TEST_HELPER` naming what to do.

use std::{env, ffi::OsString, os::unix::fs::PermissionsExt};

use curate::{
    interrupt, process,
    sandbox::{cgroup, session::Session},
};

use super::*;

/// What the second process does; nothing in an ordinary test run.
#[test]
fn helper() {
    let Ok(task) = env::var("CURATE_TEST_HELPER") else { return };
    match task.as_str() {
        "stay" => stay(),
        "flood" => flood(),
        "probe" => match Backend::probe() {
            Ok(backend) => println!("{backend:?}"),
            Err(error) => println!("{error:#}"),
        },
        task => panic!("no task `{task}`"),
    }
}

/// Runs a script that never ends in a sandbox and in a session, both with a stubborn grandchild.
fn stay() {
    interrupt::install().unwrap();
    let (marker, ready) = (env::var("MARKER").unwrap(), PathBuf::from(env::var("READY").unwrap()));
    let place = Place::new(Backend::probe().unwrap());
    let (one, other) = (place.workspace(), place.workspace());
    let mounts = vec![shown(&ready, "/ready", true)];
    let script = |name: &str| format!("{}; touch /ready/{name}; sleep 100", stubborn(&marker));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let output = place.run(&Spec { mounts: mounts.clone(), ..spec(&one) }, &script("run"));
            println!("run {:?}", output.exit);
        });
        scope.spawn(|| {
            let spec = Spec { mounts: mounts.clone(), ..spec(&other) };
            let mut session = Session::open(place.backend, &spec).unwrap();
            let output = session.exec(&script("session"), Duration::from_secs(100)).unwrap();
            println!("session {:?}", output.exit);
        });
    });
}

fn flood() {
    let place = Place::new(Backend::probe().unwrap());
    let workspace = place.workspace();
    let spec = Spec { limits: limits(300), ..spec(&workspace) };
    let before = peak_kib();
    let output = place.run(&spec, "head -c 1G /dev/zero; exit 5");
    println!("{:?} {} {}", output.exit, output.stdout.total_bytes, output.stdout.text().len() < 70_000);
    let mut session = Session::open(place.backend, &spec).unwrap();
    let output = session.exec("yes | head -c 1G; exit 6", Duration::from_mins(5)).unwrap();
    println!("{:?} {} {}", output.exit, output.stdout.total_bytes, output.stdout.text().len() < 70_000);
    let growth = peak_kib() - before;
    println!("{}", if growth < 20 << 10 { "bounded".to_owned() } else { format!("grew by {growth} KiB") });
}

/// Peak of our resident memory so far.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Runs a shell script in which `"$@"` is this binary as a helper.
fn with_helper(task: &str, script: &str, env: &[(&str, &Path)]) -> process::Finished {
    let argv = ["sh", "-c", script, "sh"].map(OsString::from).into_iter();
    let this = [env::current_exe().unwrap().into_os_string()].into_iter();
    let options = ["--exact", "contract_sandbox::helper::helper", "--nocapture", "--quiet"].map(OsString::from);
    let inherited = env::vars_os().filter(|(name, _)| env.iter().all(|(other, _)| name != other));
    let own = env.iter().map(|(name, value)| ((*name).into(), value.as_os_str().to_owned()));
    process::run(&process::Command {
        argv: argv.chain(this).chain(options).collect(),
        env: inherited.chain(own).chain([("CURATE_TEST_HELPER".into(), task.into())]).collect(),
        cwd: None,
        stdin: Vec::new(),
        wall: Duration::from_secs(400),
        max_output_bytes: 1 << 20,
    })
    .unwrap()
}

/// What a helper left that got a signal while its sandboxes were up.
struct Stopped {
    pid: String,
    printed: String,
    /// Names in its directory for temporary files, which is gone by now.
    files: Vec<String>,
}

fn stopped_by(signal: &str, marker: &str) -> Stopped {
    let ready = TempDir::new().unwrap();
    let script = format!(
        "\"$@\" & pid=$!; until test -e $READY/run && test -e $READY/session; do sleep 0.05; done
         kill -{signal} $pid; wait $pid; echo pid $pid"
    );
    // The scratch directories of a killed helper go with this one.
    let finished = with_helper(
        "stay",
        &script,
        &[("MARKER", Path::new(marker)), ("READY", ready.path()), ("TMPDIR", ready.path())],
    );
    let printed = finished.stdout.text();
    let pid = printed.lines().find_map(|line| line.strip_prefix("pid ")).expect("the script says it").to_owned();
    let entries = fs::read_dir(ready.path()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort_unstable();
    Stopped { pid, printed, files }
}

#[test]
fn b066_our_own_death_takes_everything_along() {
    each(|_| {
        let marker = marker();
        let Stopped { pid, .. } = stopped_by("KILL", &marker);
        assert_dead(&marker, Duration::from_secs(2));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains("/merged overlay"), "{mounts}");
        // Control groups wait for the next one of us.
        with_helper("probe", "\"$@\"", &[]);
        let parents = [&cgroup::support().memory, &cgroup::support().processes];
        for parent in parents.into_iter().flatten() {
            let groups = fs::read_dir(&parent.directory).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> =
                groups.filter(|name| name.to_string_lossy().starts_with(&format!("curate-{pid}-"))).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    });
}

#[test]
fn interrupt_ends_everything_soon_and_is_named() {
    each(|_| {
        let marker = marker();
        let started = Instant::now();
        let Stopped { printed, files, .. } = stopped_by("INT", &marker);
        assert!(processes_with(&marker).is_empty());
        let named = ["run Interrupted\n", "session Interrupted\n"];
        assert!(named.iter().all(|line| printed.contains(line)), "{printed}");
        assert_eq!(files, ["run", "session"]);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    });
}

#[test]
fn b069_a_gibibyte_of_output_stays_bounded_in_memory() {
    each(|_| {
        let text = with_helper("flood", "\"$@\"", &[]).stdout.text();
        for line in ["Code(5) 1073741824 true\n", "Code(6) 1073741824 true\n", "bounded\n"] {
            assert!(text.contains(line), "{text}");
        }
    });
}

#[test]
fn unusable_bubblewrap_is_refused_with_the_cause_and_the_next_step() {
    let stubs = TempDir::new().unwrap();
    let stub = stubs.path().join("bwrap");
    fs::write(&stub, "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let script = "PATH=$STUBS:$PATH \"$@\"";
    let text = with_helper("probe", script, &[("STUBS", stubs.path())]).stdout.text();
    assert!(text.contains("refusing to run without one: bwrap: setting up uid map: Permission denied"), "{text}");
    assert!(text.contains("user namespaces seem to be blocked"), "{text}");

    let script = "rm $STUBS/bwrap; ln -s $(command -v sh) $(command -v setarch) $(command -v true) $STUBS; \
                  PATH=$STUBS \"$@\"";
    let text = with_helper("probe", script, &[("STUBS", stubs.path())]).stdout.text();
    assert!(text.contains("install bubblewrap"), "{text}");
}
