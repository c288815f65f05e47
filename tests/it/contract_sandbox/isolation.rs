//! What is seen, and what is not.

use super::*;

#[test]
fn b075_there_is_no_network_and_attempts_fail_fast() {
    each(|place| {
        let output = place.python(
            "import socket, time\n\
             def fails(action):\n\
             \x20   start = time.time()\n\
             \x20   try: action()\n\
             \x20   except OSError as error: return time.time() - start < 2\n\
             \x20   return False\n\
             for address in ('8.8.8.8', 53), ('1.1.1.1', 443), ('2606:4700:4700::1111', 443):\n\
             \x20   print(fails(lambda: socket.create_connection(address, 5)))\n\
             print(fails(lambda: socket.getaddrinfo('example.com', 80)))\n\
             print([name for _, name in socket.if_nameindex()])",
        );
        assert_prints(&output, "True\nTrue\nTrue\nTrue\n['lo']\n");
    });
}

#[test]
fn b075_loopback_works_in_both_versions() {
    each(|place| {
        let output = place.python(
            "import socket\n\
             for family, host in (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'), (socket.AF_INET, 'localhost'):\n\
             \x20   server = socket.socket(family); server.bind((host, 0)); server.listen()\n\
             \x20   client = socket.create_connection(server.getsockname()[:2], 2); client.sendall(b'x')\n\
             \x20   print(server.accept()[0].recv(1))",
        );
        assert_prints(&output, "b'x'\nb'x'\nb'x'\n");
    });
}

#[test]
fn nothing_outside_the_workspace_can_be_written() {
    each(|place| {
        let outside = TempDir::new().unwrap();
        fs::write(outside.path().join("kept"), "kept").unwrap();
        let workspace = place.workspace();
        let mounts = vec![shown(outside.path(), "/opt/shown", false)];
        let script = "for path in /new /usr/new /usr/bin/new /etc/new /etc/passwd /opt/new /opt/shown/new \
                      /opt/shown/kept /lib/new /proc/sys/kernel/hostname /session /home/new; do \
                      (echo x >>$path) 2>/dev/null && echo wrote $path; done; \
                      rm -f /opt/shown/kept 2>/dev/null; touch /tmp/mine /dev/shm/mine ~/mine mine && echo done";
        let output = place.run(&Spec { mounts, ..spec(&workspace) }, script);
        assert_prints(&output, "done\n");
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert!(!Path::new("/tmp/mine").exists());
    });
}

#[test]
fn writable_mounts_are_shared_with_the_host() {
    each(|place| {
        let results = TempDir::new().unwrap();
        let workspace = place.workspace();
        let mounts = vec![shown(results.path(), "/results/deep", true)];
        let output = place.run(&Spec { mounts, ..spec(&workspace) }, "echo 1 >/results/deep/out && ls /results");
        assert_prints(&output, "deep\n");
        assert_eq!(fs::read_to_string(results.path().join("out")).unwrap(), "1\n");
    });
}

#[test]
fn the_hosts_home_files_and_other_workspaces_are_absent() {
    each(|place| {
        let (mine, other) = (place.workspace(), place.workspace());
        let secret = place.scratch.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let home = std::env::var("HOME").unwrap();
        let paths = [place.template.path(), place.scratch.path(), &secret, Path::new(&home)];
        let script = paths.map(|path| format!("test -e '{}' && echo sees {0};", path.display())).concat()
            + "ls / /home /etc/ssl; ls -A /home/agent /tmp /dev/shm /root /var/lib /srv 2>/dev/null";
        let output = place.run(&spec(&mine), &script);
        let text = output.stdout.text();
        assert!(!text.contains("sees"), "{text}");
        assert!(text.contains("\nagent\n") && text.contains("\ntestbed\n"), "{text}");
        for absent in ["root", "srv", "mnt", "media", "sys", "private"] {
            assert!(!text.lines().any(|line| line == absent), "{absent}: {text}");
        }
        drop(other);
        fs::remove_file(secret).unwrap();
    });
}

#[test]
fn the_hosts_environment_is_absent_and_the_callers_wins() {
    each(|place| {
        let workspace = place.workspace();
        let env = vec![("TZ".to_owned(), "Asia/Tokyo".to_owned()), ("MINE".to_owned(), "a b\n=c".to_owned())];
        let output = place.run(&Spec { env, ..spec(&workspace) }, "echo $TZ $MINE $HOME; env | cut -d= -f1 | sort");
        assert_prints(
            &output,
            "Asia/Tokyo a b =c /home/agent\n\nCOLUMNS\nDEBIAN_FRONTEND\nGIT_EDITOR\nGIT_PAGER\nGIT_TERMINAL_PROMPT\n\
             HOME\nLANG\nLC_ALL\nLOGNAME\nMINE\nNO_COLOR\nPAGER\nPATH\nPWD\nPYTHONDONTWRITEBYTECODE\nPYTHONHASHSEED\n\
             SHELL\nSHLVL\nTERM\nTMPDIR\nTZ\nUSER\n_\n",
        );
    });
}

#[test]
fn there_are_no_capabilities_and_none_to_be_had() {
    each(|place| {
        let output =
            place.sh("grep -E 'Cap|NoNewPrivs' /proc/self/status; unshare -Ur id >/dev/null 2>&1 && echo nested");
        let zeros = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:\t0000000000000000\n")).concat();
        assert_prints(&output, &format!("{zeros}NoNewPrivs:\t1\n"));
    });
}

#[test]
fn the_kernels_settings_cannot_be_written() {
    each(|place| {
        let script = "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null | head; \
                      cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern || cat /proc/sys/kernel/ostype";
        assert_prints(&place.sh(script), "Linux\n");
    });
}

#[test]
fn only_its_own_processes_are_seen_and_no_descriptor_is_inherited() {
    each(|place| {
        let output = place.python(
            "import os\n\
             print(len([p for p in os.listdir('/proc') if p.isdigit()]) <= 3)\n\
             print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4], os.isatty(0), os.isatty(1))",
        );
        // The fourth is the listing's own.
        assert_prints(&output, "True\n[0, 1, 2, 3] False False\n");
        let output = place.sh("ls /proc/self/fd | wc -l");
        assert_prints(&output, "4\n");
    });
}

#[test]
fn shared_memory_is_usable() {
    each(|place| {
        let output = place.python(
            "import multiprocessing as m, multiprocessing.shared_memory as s, os\n\
             with m.Lock(): print(oct(os.stat('/dev/shm').st_mode & 0o7777))\n\
             block = s.SharedMemory(create=True, size=100 << 20); block.buf[-1] = 7; block.close(); block.unlink()\n\
             print(m.Pool(2).map(abs, [-1, -2]))",
        );
        assert_prints(&output, "0o1777\n[1, 2]\n");
    });
}

#[test]
fn addresses_and_process_ids_repeat() {
    each(|place| {
        let script = "import os; print(id(object()), os.getpid(), open('/proc/self/maps').read().count('\\n'))";
        let (one, other) = (place.python(script), place.python(script));
        assert_eq!(one.exit, Exit::Code(0));
        assert_eq!(one.stdout.text(), other.stdout.text());
    });
}

#[test]
fn commands_that_ask_end_quickly() {
    each(|place| {
        let asking = [
            "read x; echo got $x",
            "git init -q . 2>/dev/null; git add README; git -c user.name=a -c user.email=a@b commit",
            "git log | cat; true",
            "python3",
            "python3 -c 'input()'",
            "for i in 1 2 3; do read -p 'again? ' x; done",
            "cat",
        ];
        for script in asking {
            let started = Instant::now();
            let output = place.sh(script);
            assert!(started.elapsed() < Duration::from_secs(5), "{script}: {:?}", started.elapsed());
            assert!(matches!(output.exit, Exit::Code(_)), "{script}: {:?}", output.exit);
        }
    });
}

#[test]
fn output_that_is_not_text_comes_through_whole() {
    each(|place| {
        let output = place.sh(r"printf '\377\000\303\050'; head -c 50000 /dev/zero | tr '\0' '\351'");
        assert_eq!(output.stdout.total_bytes, 50004);
        assert_eq!(&output.stdout.head[..5], b"\xff\0\xc3\x28\xe9");
        let output = place.python("import sys; sys.stdout.write('x' + '語' * 30000); sys.stdout.flush()");
        let text = output.stdout.text();
        assert!(!text.contains('\u{fffd}') && text.starts_with("x語") && text.contains(" bytes left out …]\n語"));
    });
}

#[test]
fn a_sandbox_that_cannot_be_set_up_is_lost_and_says_why() {
    each(|place| {
        let workspace = place.workspace();
        let mounts = vec![shown(Path::new("/no/such/directory"), "/x", false)];
        let output = place.run(&Spec { mounts, ..spec(&workspace) }, "true");
        assert_eq!(output.exit, Exit::Lost);
        assert!(output.stderr.text().contains("/no/such/directory"), "{}", output.stderr.text());
        // The same words from the command itself are no loss.
        let output = place.sh("echo \"bwrap: Can't find source path /x\" >&2; exit 1");
        assert_eq!(output.exit, Exit::Code(1));
    });
}
