"""A process that has loaded a test runner and forks itself into one sandbox after another.

Started with the right to enter sandboxes and with nothing of a subject in sight; its forks give that right up before
anything of a subject is read. For Python 3.7 and later, whose forks draw other random numbers than their parent.
"""

import array
import ctypes
import importlib
import os
import resource
import site
import socket
import sys
import time

# User, mount, UTS, IPC, network, process and control group namespaces.
NAMESPACES = 0x10000000 | 0x20000 | 0x4000000 | 0x8000000 | 0x40000000 | 0x20000000 | 0x2000000
MNT_DETACH = 2
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 24, 38, 47, 4
CAPABILITY_VERSION = 0x20080522
# To change the root directory, to look at a process, to join namespaces.
ENTERING = 1 << 18 | 1 << 19 | 1 << 21
MAX_DESCRIPTORS = 8
# What a run ends with that cannot reach its instructions.
CHANNEL_BROKEN = 97


def serve(descriptor, packages, load, known):
    """Loads the runner; then returns in one fork after another, each in its sandbox, as if it had been started there.

    `packages` is the directory of the environment's packages. An empty one covers it at the start, so that none of them
    can run anything here. Of the modules loaded so far the runner and what it runs see only `known`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    keep_rights(libc, ENTERING)
    check(libc.umount2(os.fsencode(packages), MNT_DETACH))
    sys.path_importer_cache.clear()
    for name in set(sys.modules) - known:
        del sys.modules[name]
    load()
    control = socket.socket(fileno=descriptor)
    control.send(b"r")
    while True:
        _, handed = receive(control, 1, 1)
        if not handed:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            enter(libc, socket.socket(fileno=handed[0]), packages)
            return
        os.close(handed[0])
        reap()


def check(failed):
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def receive(connection, size, n_descriptors):
    """Returns bytes and descriptors of one message; neither at the end."""
    descriptors = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(size, socket.CMSG_SPACE(n_descriptors * descriptors.itemsize))
    for _, _, handed in ancillary:
        descriptors.frombytes(handed[: len(handed) - len(handed) % descriptors.itemsize])
    return data, list(descriptors)


def enter(libc, connection, packages):
    """Takes the place of the process at the other end: its namespaces, groups, streams, limits, environment, command.

    Returns in the process that is to run the command. Where that fails the other side is left alone and runs it itself.
    """
    text, descriptors = receive(connection, 1 << 16, MAX_DESCRIPTORS)
    more = text
    while more:
        more = connection.recv(1 << 16)
        text += more
    if len(descriptors) < 4:
        os._exit(1)
    streams, client, groups = descriptors[:3], descriptors[3], descriptors[4:]
    try:
        for group in groups:
            os.write(group, b"0")
        check(libc.setns(client, NAMESPACES))
        child = os.fork()
    except OSError:
        os._exit(1)
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        follow(connection, child)
    connection.close()
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    try:
        become(libc, text, packages)
    except (OSError, ValueError) as error:
        sys.stderr.write("curate: go on in the sandbox: %s\n" % error)
        sys.stderr.flush()
        os._exit(CHANNEL_BROKEN)


def follow(connection, child):
    """Tells the other side that the command has begun, and how it ended."""
    try:
        connection.send(b"s")
        status = os.waitpid(child, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        connection.send(array.array("i", [code]).tobytes())
    except OSError:
        # The sandbox is gone, and the child with it.
        pass
    os._exit(0)


def become(libc, text, packages):
    command, directory, limits, environment = [part.split(b"\0") for part in text.split(b"\0\0", 3)]
    for limit in limits:
        kind, soft, hard = [int(number) for number in limit.split()]
        resource.setrlimit(kind, (soft, hard))
    os.chdir(directory[0])
    os.environ.clear()
    for variable in environment:
        name, mark, value = variable.partition(b"=")
        if mark:
            os.environb[name] = value
    time.tzset()
    give_up_rights(libc)
    command = [os.fsdecode(word) for word in command]
    sys.argv[:] = command[1:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = command
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    if is_shadowed():
        os.execv(command[0], command)
    # What the interpreter does on starting with packages in sight.
    site.addsitedir(packages)
    site.execsitecustomize()
    logging = sys.modules.get("logging")
    if logging is not None:
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()


def keep_rights(libc, capabilities):
    """Drops all capabilities but these, of the first 32, and hands none on."""
    kept = (ctypes.c_uint32 * 6)(capabilities, capabilities)
    check(libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), kept))


def give_up_rights(libc):
    capability = 0
    while libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    keep_rights(libc, 0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Reset by the changes above; without it a process cannot look at itself.
    check(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))


def is_shadowed():
    """Says whether the tree has modules that a fresh start would have loaded before, or instead of, some that are loaded."""
    names = {name.partition(".")[0] for name in sys.modules} | {"sitecustomize"}
    for root in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        try:
            entries = os.listdir(root)
        except OSError:
            continue
        for entry in entries:
            stem, mark, _ = entry.partition(".")
            if stem in names and (mark or os.path.exists(os.path.join(root, entry, "__init__.py"))):
                return True
    return False
