//! The persistent shell.

use curate::sandbox::session::Session;

use super::*;

const WALL: Duration = Duration::from_secs(20);

fn with_session(check: impl Fn(&Place, &Workspace, &mut Session)) {
    each(|place| {
        let workspace = place.workspace();
        let spec = spec(&workspace);
        let mut session = Session::open(place.backend, &spec).unwrap();
        check(place, &workspace, &mut session);
    });
}

#[test]
fn commands_share_files_and_nothing_else() {
    with_session(|_, _, session| {
        let output = session.exec("cd src; export X=1; f() { :; }; umask 0; echo hi >new; echo err >&2; exit 3", WALL);
        let output = output.unwrap();
        assert_eq!(output.exit, Exit::Code(3));
        assert_prints(&output, "err\n");
        let output = session.exec("pwd; echo \"[$X]\"; type f 2>/dev/null; umask; cat src/new; cat", WALL).unwrap();
        assert_prints(&output, "/testbed\n[]\n0022\nhi\n");
    });
}

#[test]
fn both_streams_come_in_order() {
    with_session(|_, _, session| {
        let script = "for i in 1 2 3; do echo out$i; echo err$i >&2; done";
        assert_prints(&session.exec(script, WALL).unwrap(), "out1\nerr1\nout2\nerr2\nout3\nerr3\n");
    });
}

#[test]
fn b067_background_server_is_reached_by_the_next_command() {
    with_session(|_, _, session| {
        let started = Instant::now();
        for start in ["sleep 300 & echo done", "setsid sleep 300 & echo done", "(yes) & sleep 0.2"] {
            let output = session.exec(start, WALL).unwrap();
            assert_eq!(output.exit, Exit::Code(0), "{start}");
            assert!(output.stdout.text().starts_with(if start.contains("done") { "done\n" } else { "y\n" }), "{start}");
        }
        session.exec("python3 -m http.server 8123 --bind 127.0.0.1 & true", WALL).unwrap();
        let script = "python3 -c \"
import time, urllib.request as r
for _ in range(100):
    try: print(len(r.urlopen('http://127.0.0.1:8123/README').read())); break
    except OSError: time.sleep(0.05)
\"";
        assert_prints(&session.exec(script, WALL).unwrap(), "8\n");
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    });
}

#[test]
fn background_writer_neither_blocks_nor_dies() {
    with_session(|_, _, session| {
        let script = "(sleep 0.3; head -c 1000000 /dev/zero; echo $? >finished) & true";
        assert_eq!(session.exec(script, WALL).unwrap().exit, Exit::Code(0));
        let output =
            session.exec("for i in $(seq 100); do test -e finished && break; sleep 0.1; done; cat finished", WALL);
        assert_prints(&output.unwrap(), "0\n");
    });
}

#[test]
fn time_out_kills_everything_and_keeps_the_files() {
    with_session(|_, _, session| {
        let marker = marker();
        let script = format!("{}; echo kept >kept; echo seen; sleep 100", stubborn(&marker));
        let output = session.exec(&script, Duration::from_secs(1)).unwrap();
        assert_eq!(output.exit, Exit::TimedOut);
        assert_prints(&output, "seen\n");
        assert!(processes_with(&marker).is_empty());
        assert_prints(&session.exec("cat kept; pwd", WALL).unwrap(), "kept\n/testbed\n");
    });
}

#[test]
fn dropping_a_session_kills_what_it_left() {
    each(|place| {
        let (workspace, marker) = (place.workspace(), marker());
        let spec = spec(&workspace);
        let mut session = Session::open(place.backend, &spec).unwrap();
        session.exec(&stubborn(&marker), WALL).unwrap();
        assert!(!processes_with(&marker).is_empty());
        drop(session);
        assert!(processes_with(&marker).is_empty());
    });
}

#[test]
fn b078_nothing_writes_to_the_tree_once_the_session_is_gone() {
    each(|place| {
        let workspace = place.workspace();
        let spec = spec(&workspace);
        let mut session = Session::open(place.backend, &spec).unwrap();
        session.exec("setsid -f sh -c 'while :; do echo good >README; echo bad >README; done'", WALL).unwrap();
        drop(session);
        let first = workspace.changes(1 << 20).unwrap();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(workspace.changes(1 << 20).unwrap(), first);
        }
    });
}

#[test]
fn fork_bomb_costs_a_new_sandbox_at_most() {
    each(|place| {
        let workspace = place.workspace();
        let limits = Limits { processes: 50, ..limits(30) };
        let spec = Spec { limits, ..spec(&workspace) };
        let mut session = Session::open(place.backend, &spec).unwrap();
        session.exec("echo kept >kept; :(){ :|:& };:", Duration::from_secs(3)).unwrap();
        // The bomb may leave no process for the next command, which then ends by its time limit.
        let outputs = [0, 1].map(|_| session.exec("cat kept", Duration::from_secs(3)).unwrap());
        assert!(outputs.iter().any(|output| output.stdout.text() == "kept\n"), "{outputs:?}");
    });
}

#[test]
fn commands_that_attack_the_shell_cost_themselves_at_most() {
    with_session(|_, _, session| {
        let attacks = [
            ("kill -9 -1; echo still", Exit::Code(0)),
            ("pkill -9 -f . ; echo still", Exit::Signal(9)),
            ("pkill bash; echo still", Exit::Signal(15)),
            ("kill -9 $PPID; kill -TERM 1; echo still", Exit::Code(0)),
            ("exec 0<&- 1>&- 2>&-; true", Exit::Code(0)),
            ("echo 'unbalanced", Exit::Code(2)),
            ("exec true", Exit::Code(0)),
            ("set -e; false; echo no", Exit::Code(1)),
            ("}; done; exit 4", Exit::Code(2)),
            ("rm -rf /session /testbed/* ~ 2>/dev/null; exit 5", Exit::Code(5)),
            ("trap '' EXIT; kill -STOP 1; exit 6", Exit::Code(6)),
        ];
        for (attack, exit) in attacks {
            let output = session.exec(attack, WALL).unwrap();
            assert_eq!(output.exit, exit, "{attack}: {}", output.stdout.text());
            assert_prints(&session.exec("echo fine", WALL).unwrap(), "fine\n");
        }
    });
}

#[test]
fn forged_answers_and_stolen_requests_harm_nobody() {
    with_session(|_, _, session| {
        for script in
            ["printf '99 0\\n1 x\\ngarbage' >/proc/1/fd/1; exit 3", "head -c 300000 /dev/zero >/proc/1/fd/1; exit 3"]
        {
            let output = session.exec(script, WALL).unwrap();
            assert!(matches!(output.exit, Exit::Code(3)), "{script}: {:?}", output.exit);
        }
        session.exec("(cat /proc/1/fd/0 >/dev/null) & true", WALL).unwrap();
        // The thief may get the request; then the command ends by its time limit.
        let _ = session.exec("echo fine", Duration::from_secs(2)).unwrap();
        session.exec("pkill cat; true", Duration::from_secs(2)).unwrap();
        assert_prints(&session.exec("echo fine", WALL).unwrap(), "fine\n");
    });
}

#[test]
fn b070_long_commands_and_strange_bytes_come_through() {
    with_session(|_, _, session| {
        let text = "x".repeat(300_000);
        let output = session.exec(&format!("cat >long <<'END'\n{text}\nEND\nwc -c <long"), WALL).unwrap();
        assert_prints(&output, "300001\n");
        let output = session.exec(r"printf '\377\000語\303'", WALL).unwrap();
        assert_eq!(output.stdout.head, b"\xff\0\xe8\xaa\x9e\xc3");
        // Across 4096, 8192 and the end of what is kept as the head.
        let widths = [4095, 4093, 24573];
        let script = widths.map(|n| format!("printf '%{n}s語' ''; ")).concat();
        assert_prints(&session.exec(&script, WALL).unwrap(), &widths.map(|n| " ".repeat(n) + "語").concat());
        let noise = session.exec("head -c 100000 /dev/urandom; exit 7", WALL).unwrap();
        assert_eq!((noise.exit, noise.stdout.total_bytes), (Exit::Code(7), 100_000));
        assert!(noise.stdout.text().contains('\u{fffd}'));
        assert_prints(&session.exec("# only a comment\n", WALL).unwrap(), "");
        assert_prints(
            &session.exec("printf %s \"$0\"; no-such-program", WALL).unwrap(),
            "bashbash: line 1: no-such-program: command not found\n",
        );
    });
}

#[test]
fn two_sessions_do_not_see_each_others_files() {
    each(|place| {
        let (one, other) = (place.workspace(), place.workspace());
        let (one, other) = (spec(&one), spec(&other));
        let mut first = Session::open(place.backend, &one).unwrap();
        let mut second = Session::open(place.backend, &other).unwrap();
        first.exec("touch mine /tmp/mine ~/mine /dev/shm/mine", WALL).unwrap();
        let output = second.exec("ls mine /tmp/mine ~/mine /dev/shm/mine 2>/dev/null; pgrep -c bash", WALL).unwrap();
        assert_prints(&output, "2\n");
    });
}

#[test]
fn a_session_outlives_the_thread_that_opened_it() {
    each(|place| {
        let workspace = place.workspace();
        let spec = spec(&workspace);
        let mut session =
            std::thread::scope(|scope| scope.spawn(|| Session::open(place.backend, &spec).unwrap()).join().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert_prints(&session.exec("echo fine", WALL).unwrap(), "fine\n");
    });
}
