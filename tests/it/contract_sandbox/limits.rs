//! Time, memory, processes, sizes: what ends, and what is dead afterwards.

use curate::sandbox::cgroup;

use super::*;
use crate::support::require;

#[test]
fn b066_stubborn_grandchild_is_dead_after_a_time_out() {
    each(|place| {
        let (workspace, marker) = (place.workspace(), marker());
        let kept = format!("nohup sh -c 'while :; do sleep 1; done' {marker} 2>/dev/null &");
        let script =
            format!("{}; {kept} ({kept}) & echo started; python3 -c 'while 1: pass' {marker}", stubborn(&marker));
        let started = Instant::now();
        let output = place.run(&Spec { limits: limits(1), ..spec(&workspace) }, &script);
        assert!(processes_with(&marker).is_empty(), "alive: {:?}", processes_with(&marker));
        assert_eq!(output.exit, Exit::TimedOut);
        assert_prints(&output, "started\n");
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    });
}

#[test]
fn b067_background_processes_neither_hold_the_call_open_nor_survive_it() {
    each(|place| {
        for (n, start) in ["sleep 300 MARK", "setsid sleep 300 MARK", "nohup sleep 300 MARK"].iter().enumerate() {
            let marker = format!("3{}.{n}", std::process::id());
            let started = Instant::now();
            let output = place.sh(&format!("{} & echo done", start.replace("MARK", &marker)));
            assert!(started.elapsed() < Duration::from_secs(2), "{start}: {:?}", started.elapsed());
            assert!(output.stdout.text().ends_with("done\n"));
            assert!(processes_with(&marker).is_empty(), "{start}");
        }
    });
}

#[test]
fn fork_bomb_ends_at_the_limit_and_leaves_the_host_fine() {
    each(|place| {
        let workspace = place.workspace();
        let is_root = fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
        if !require("pids", cgroup::support().processes.is_some() || !is_root) {
            return;
        }
        let limits = Limits { processes: 50, ..limits(5) };
        let script = "python3 -c \"
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0: time.sleep(60)
        n += 1
except BlockingIOError: pass
print(30 < n < 60)
\"";
        let output = place.run(&Spec { limits, ..spec(&workspace) }, script);
        assert_prints(&output, "True\n");
        let started = Instant::now();
        place.run(&Spec { limits, ..spec(&workspace) }, ":(){ :|:& };: ; sleep 1");
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        assert_prints(&place.run(&spec(&workspace), "echo fine"), "fine\n");
    });
}

#[test]
fn allocation_beyond_the_limit_fails() {
    each(|place| {
        let output = place.python("x = bytearray(10 << 30)");
        assert_eq!(output.exit, Exit::Code(1));
        assert!(output.stderr.text().contains("MemoryError"), "{}", output.stderr.text());
    });
}

#[test]
fn memory_of_all_processes_together_is_bounded() {
    each(|place| {
        if !require("memory", cgroup::support().memory.is_some()) {
            return;
        }
        let workspace = place.workspace();
        let limits = Limits { memory_bytes: 256 << 20, address_space_bytes: 256 << 20, ..limits(20) };
        let script = "python3 -c 'x = b\"x\" * (110 << 20); print(1, flush=True); import time; time.sleep(60)' &
                      sleep 1; exec python3 -c 'x = b\"x\" * (200 << 20)'";
        let output = place.run(&Spec { limits, ..spec(&workspace) }, script);
        assert_eq!(output.exit, Exit::OutOfMemory, "{}", output.stderr.text());
        // A kill by somebody else is not blamed on memory.
        assert_eq!(place.run(&Spec { limits, ..spec(&workspace) }, "kill -9 $$").exit, Exit::Signal(9));
    });
}

#[test]
fn file_size_and_core_dumps_are_bounded() {
    each(|place| {
        let workspace = place.workspace();
        let limits = Limits { file_bytes: 1 << 20, ..limits(10) };
        let script = "head -c 2000000 /dev/zero >big; echo $?; stat -c %s big; sh -c 'kill -SEGV $$'; ls core* 2>&1";
        let output = place.run(&Spec { limits, ..spec(&workspace) }, script);
        let text = output.stdout.text();
        assert!(text.starts_with("153\n1048576\n"), "{text}");
        assert!(text.contains("No such file"), "{text}");
    });
}
